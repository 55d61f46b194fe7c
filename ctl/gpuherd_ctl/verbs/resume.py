"""``agentctl resume``: end a pause."""

import argparse

from gpuherd.rest import ResumeRequest, Wishes
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.wishing import show


def _declare(_parser: argparse.ArgumentParser) -> None:
    pass


def _run(_given: argparse.Namespace, session: Session) -> ExitCode:
    show(session, session.scaler.post("/scaler:resume", ResumeRequest(by=session.user), Wishes))
    return ExitCode.DONE


VERB = Verb(name="resume", summary="End a pause: plans are carried out again.", declare=_declare, run=_run)
