"""``agentctl pause``: let the autoscaler carry out no plan for a time."""

import argparse

from gpuherd.rest import PauseRequest, Wishes
from gpuherd_ctl.durations import parse_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.wishing import show


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="for_s",
        type=parse_duration,
        default=None,
        metavar="1h",
        help="it ends by itself after this (1h; at most 7d)",
    )
    parser.add_argument("--reason", default="", help="shown to everybody who looks")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = PauseRequest(by=session.user, reason=given.reason, for_s=given.for_s)
    show(session, session.scaler.post("/scaler:pause", request, Wishes))
    return ExitCode.DONE


VERB = Verb(
    name="pause",
    summary="Let the autoscaler only show plans for a time; what people ask is still done.",
    declare=_declare,
    run=_run,
)
