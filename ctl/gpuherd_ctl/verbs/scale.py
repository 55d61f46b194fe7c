"""``agentctl scale``: let a pool serve with so many nodes for a time, or follow demand again."""

import argparse
from typing import Final

from gpuherd.rest import ScaleRequest, Wishes
from gpuherd_ctl.durations import parse_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.wishing import show

_AUTO: Final = "auto"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="POOL")
    parser.add_argument("nodes", metavar="N", type=_nodes, help="how many nodes serve; auto: demand says")
    parser.add_argument(
        "--for",
        dest="for_s",
        type=parse_duration,
        default=None,
        metavar="8h",
        help="it ends by itself after this (8h; at most 7d)",
    )
    parser.add_argument("--reason", default="", help="shown to everybody who looks")


def _nodes(text: str) -> int | None:
    if text == _AUTO:
        return None
    if not text.isdecimal() or len(text) > 6:  # noqa: PLR2004  more nodes than anybody has
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of nodes, nor {_AUTO}")
    return int(text)


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = ScaleRequest(nodes=given.nodes, by=session.user, reason=given.reason, for_s=given.for_s)
    show(session, session.scaler.post(f"/pools/{given.pool}:scale", request, Wishes))
    return ExitCode.DONE


VERB = Verb(
    name="scale",
    summary="Let a pool serve with N nodes for a time, within its min and max.",
    declare=_declare,
    run=_run,
)
