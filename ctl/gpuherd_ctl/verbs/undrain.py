"""``agentctl undrain``: lift holds, so that nodes may serve again; ``--now`` ends what still runs there.

A drained node of Ray never takes new work again. Without ``--now`` it rejoins once its work has ended.
"""

import argparse

from gpuherd.names import HoldId, NodeName, expand_nodes
from gpuherd.phases import Phase
from gpuherd.rest import CommandRequest, Node, Operation, UndrainRequest
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode, merge
from gpuherd_ctl.follow import follow
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.taking_out import confirm, told


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="name or range such as gpu-[01-08]")
    parser.add_argument("--hold", default="", metavar="ID", help="lift this one hold (see agentctl nodes -R)")
    parser.add_argument(
        "--now",
        action="store_true",
        help="stop what still runs on a draining node (SIGTERM, then its agent's grace): it rejoins at once",
    )
    parser.add_argument("--reason", default="", help="with --now: why; stands in the record")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the node has taken it in")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds to wait (60)")
    parser.add_argument("-y", "--yes", action="store_true", help="several nodes and --now: do not ask")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    names = expand_nodes(given.nodes)
    if given.now and len(names) > 1 and not given.yes:
        confirm(session, names, "End all work that is left on")
    operations: list[Operation] = []
    codes: list[ExitCode] = []
    for name in names:
        try:
            if given.now:
                operations += _end(session, name, HoldId(given.hold), given.reason)
            else:
                operations.append(_lift(session, name, HoldId(given.hold)))
        except Trouble as trouble:
            codes.append(told(session, name, trouble))
    codes += follow(session, operations, timeout_s=given.timeout, wait=not given.no_wait)
    return merge(codes)


def _end(session: Session, name: NodeName, hold: HoldId, reason: str) -> list[Operation]:
    """Lift what stands, if anything does, and have what is left ended; both are followed."""
    node = session.scaler.get(f"/nodes/{name}", Node)
    for blocker in node.blockers:
        session.paper.line(f"{name}  ends {blocker}")
    begun = [_lift(session, name, hold)] if node.holds or hold else []
    if node.phase is not Phase.DRAINING and begun:
        session.paper.remark(f"{name}: it does not drain, so there is nothing to end")
        return begun
    request = CommandRequest(
        verb="end-drain", arguments={"raylet": node.ray_node_id or ""}, by=session.user, reason=reason
    )
    return [*begun, session.scaler.post(f"/nodes/{name}/commands", request, Operation)]


def _lift(session: Session, name: NodeName, hold: HoldId) -> Operation:
    return session.scaler.post(
        f"/nodes/{name}:undrain", UndrainRequest(by=session.user, hold=hold), Operation
    )


VERB = Verb(name="undrain", summary="Lift holds so that nodes may serve again.", declare=_declare, run=_run)
