"""``agentctl drain``: take nodes out of service once their work has ended, within an hour or as said."""

import argparse

from gpuherd.rest import DrainRequest
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.taking_out import declare, take_out


def _declare(parser: argparse.ArgumentParser) -> None:
    declare(parser, without_for="1h")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    return take_out(given, session, "drain", DrainRequest)


VERB = Verb(
    name="drain", summary="Take nodes out of service once their work has ended.", declare=_declare, run=_run
)
