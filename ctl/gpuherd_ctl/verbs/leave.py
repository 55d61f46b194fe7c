"""``agentctl leave``: let nodes leave Ray, however long their work takes, and stay outside until a join."""

import argparse

from gpuherd.rest import LeaveRequest
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.taking_out import declare, take_out


def _declare(parser: argparse.ArgumentParser) -> None:
    declare(parser, without_for="all that it takes")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    return take_out(given, session, "leave", LeaveRequest)


VERB = Verb(
    name="leave",
    summary="Let nodes leave Ray when their work has ended, and stay outside until a join.",
    declare=_declare,
    run=_run,
)
