"""``agentctl version``: of this program and of the autoscaler it talks to."""

import argparse

import msgspec

import gpuherd
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(_parser: argparse.ArgumentParser) -> None:
    pass


def _run(_given: argparse.Namespace, session: Session) -> ExitCode:
    try:
        server = session.scaler.get("/version", dict[str, object])
        why = ""
    except Trouble as trouble:
        server, why = {}, str(trouble)
    session.paper.json({"agentctl": gpuherd.__version__, "autoscaler": server or None, "problem": why})
    session.paper.line(f"agentctl    {gpuherd.__version__}")
    for key, value in server.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        session.paper.line(f"autoscaler  {key} {shown}")
    if why:
        session.paper.remark(why)
    return ExitCode.DONE


VERB = Verb(name="version", summary="Show versions.", declare=_declare, run=_run)
