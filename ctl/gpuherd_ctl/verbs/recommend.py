"""``agentctl recommend``: let the autoscaler only show its plans, until somebody arms it."""

import argparse

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.verbs.scaler import set_mode, show


def _declare(_parser: argparse.ArgumentParser) -> None:
    pass


def _run(_given: argparse.Namespace, session: Session) -> ExitCode:
    set_mode(session, "recommend")
    return show(session)


VERB = Verb(
    name="recommend",
    summary="Let the autoscaler only show its plans; `agentctl scaler arm` ends that.",
    declare=_declare,
    run=_run,
)
