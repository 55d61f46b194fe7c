"""``agentctl undrain``: lift holds, so that nodes may serve again."""

import argparse

from gpuherd.names import HoldId, NodeName, expand_nodes
from gpuherd.rest import Operation, UndrainRequest
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode, merge
from gpuherd_ctl.follow import follow
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="name or range such as gpu-[01-08]")
    parser.add_argument("--hold", default="", metavar="ID", help="lift this one hold (see agentctl nodes -R)")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the node has taken it in")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds to wait (60)")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    operations: list[Operation] = []
    codes: list[ExitCode] = []
    for name in expand_nodes(given.nodes):
        try:
            operations.append(_lift(session, name, HoldId(given.hold)))
        except Trouble as trouble:
            if trouble.code is ExitCode.UNREACHABLE:
                raise
            session.paper.remark(f"{name}: {trouble}{f' ({trouble.hint})' if trouble.hint else ''}")
            codes.append(trouble.code)
    codes += follow(session, operations, timeout_s=given.timeout, wait=not given.no_wait)
    return merge(codes)


def _lift(session: Session, name: NodeName, hold: HoldId) -> Operation:
    return session.scaler.post(
        f"/nodes/{name}:undrain", UndrainRequest(by=session.user, hold=hold), Operation
    )


VERB = Verb(name="undrain", summary="Lift holds so that nodes may serve again.", declare=_declare, run=_run)
