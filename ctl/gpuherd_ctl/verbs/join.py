"""``agentctl join``: let nodes serve: lift what stands, ask for them, follow them until they are in Ray."""

import argparse

from gpuherd.names import expand_nodes
from gpuherd.rest import JoinRequest, Operation
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.durations import parse_duration
from gpuherd_ctl.exit_codes import ExitCode, merge
from gpuherd_ctl.follow import follow
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.taking_out import told


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="name or range such as gpu-[01-08]")
    parser.add_argument("--reason", default="", help="shown to everybody who looks (default: joined by you)")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the nodes serve")
    parser.add_argument(
        "--timeout", type=parse_duration, default=120.0, metavar="2m", help="wait no longer than this (2m)"
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    operations: list[Operation] = []
    codes: list[ExitCode] = []
    request = JoinRequest(by=session.user, reason=given.reason)
    for name in expand_nodes(given.nodes):
        try:
            operations.append(session.scaler.post(f"/nodes/{name}:join", request, Operation))
        except Trouble as trouble:
            codes.append(told(session, name, trouble))
    codes += follow(session, operations, timeout_s=given.timeout, wait=not given.no_wait)
    return merge(codes)


VERB = Verb(
    name="join", summary="Let nodes serve: lift what stands and ask for them.", declare=_declare, run=_run
)
