"""Taking nodes out of Ray: preview, ask when it is about several, place the holds, follow them."""

import argparse
from collections.abc import Sequence
from typing import TypeVar

from gpuherd.holds import OnDeadline
from gpuherd.names import NodeName, expand_nodes
from gpuherd.rest import DrainPreview, DrainRequest, Operation
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.durations import parse_duration, show_duration
from gpuherd_ctl.exit_codes import ExitCode, merge
from gpuherd_ctl.follow import follow
from gpuherd_ctl.session import Session

T = TypeVar("T")


def declare(parser: argparse.ArgumentParser, *, without_for: str) -> None:
    """Add the arguments; ``without_for`` says how long running work is given when nobody says so."""
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="name or range such as gpu-[01-08]")
    parser.add_argument("--reason", default="", help="shown to everybody who looks (default: manual by you)")
    parser.add_argument(
        "--for",
        dest="for_s",
        type=parse_duration,
        metavar="1h",
        help=f"time that running work is given ({without_for})",
    )
    parser.add_argument(
        "--on-deadline",
        choices=[o.value for o in OnDeadline],
        default=OnDeadline.WAIT.value,
        help="what becomes of work that is still running then: wait on (default), or stop it",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would happen")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    parser.add_argument("--timeout", type=parse_duration, metavar="10m", help="wait no longer than this")
    parser.add_argument("-y", "--yes", action="store_true", help="several nodes: do not ask")


def take_out(given: argparse.Namespace, session: Session, act: str, kind: type[DrainRequest]) -> ExitCode:
    """Return the exit code once every node is outside; ``act`` is the word of the route."""
    names = expand_nodes(given.nodes)
    codes: dict[NodeName, ExitCode] = {}
    dry, real = (_request(given, session.user, kind, dry_run=dry_run) for dry_run in (True, False))
    previews = _ask_all(session, [f"/nodes/{name}:{act}" for name in names], dry, DrainPreview, codes)
    for preview in previews:
        _show(session, preview)
    if given.dry_run:
        session.paper.json([*previews])
        return merge([*codes.values(), *(ExitCode.DONE for _ in previews)])
    willing = [preview.node.name for preview in previews]
    if len(willing) > 1 and not given.yes:
        confirm(session, willing, act.capitalize())
    operations = _ask_all(session, [f"/nodes/{name}:{act}" for name in willing], real, Operation, codes)
    followed = follow(session, operations, timeout_s=given.timeout, wait=not given.no_wait)
    return merge([*codes.values(), *followed])


def _request(
    given: argparse.Namespace, user: str, kind: type[DrainRequest], *, dry_run: bool
) -> DrainRequest:
    return kind(
        by=user,
        reason=given.reason,
        for_s=given.for_s,
        on_deadline=OnDeadline(given.on_deadline),
        dry_run=dry_run,
    )


def _ask_all(
    session: Session,
    paths: Sequence[str],
    request: DrainRequest,
    kind: type[T],
    codes: dict[NodeName, ExitCode],
) -> list[T]:
    """Return the answers; a node that refuses is told on the way and noted in ``codes``."""
    answers: list[T] = []
    for path in paths:
        name = NodeName(path.removeprefix("/nodes/").partition(":")[0])
        try:
            answers.append(session.scaler.post(path, request, kind))
        except Trouble as trouble:
            codes[name] = told(session, name, trouble)
    return answers


def told(session: Session, name: NodeName, trouble: Trouble) -> ExitCode:
    """Print why this one node is left out and return its code; without an autoscaler all are, so raise."""
    if trouble.code is ExitCode.UNREACHABLE:
        raise trouble
    session.paper.remark(f"{name}: {trouble}{f' ({trouble.hint})' if trouble.hint else ''}")
    return trouble.code


def _show(session: Session, preview: DrainPreview) -> None:
    node, paper = preview.node, session.paper
    idle = f", idle {show_duration(node.idle_s)}" if node.idle_s is not None else ""
    paper.line(
        f"{node.name}  pool {node.pool}  {node.gpus_declared} GPU  {node.lifecycle.value}"
        f"  health {node.severity.value}{idle}"
    )
    for activity in preview.ray_activity:
        paper.line(f"  work here  {activity}")
    for effect in preview.effects:
        paper.line(f"  effect     {effect}")


def confirm(session: Session, names: Sequence[NodeName], what: str) -> None:
    """Return when a person said yes to it for these nodes; raises Trouble otherwise."""
    if session.ask is None:
        raise Trouble(ExitCode.USAGE, f"{len(names)} nodes are meant and nobody can be asked", "give --yes")
    if not session.ask(f"{what} these {len(names)} nodes?"):
        raise Trouble(ExitCode.FAILED, "not confirmed; nothing was done")
