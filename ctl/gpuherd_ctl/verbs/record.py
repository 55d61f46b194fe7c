"""``agentctl record``: let a node keep what its sensors see for a while in one file on that node."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.durations import parse_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--for",
        dest="for_s",
        type=parse_duration,
        default=600.0,
        metavar="TIME",
        help="how long, up to 24h; 10m when left out",
    )
    which.add_argument("--stop", action="store_true", help="end the recording under way")
    parser.add_argument("--reason", default="", help="stands in the node's log")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    what = {"stop": "yes"} if given.stop else {"for_s": f"{given.for_s:g}"}
    request = CommandRequest(verb="record", arguments=what, by=session.user, reason=given.reason)
    return command(session, parse_node(given.node), request)


VERB = Verb(
    name="record", summary="Record what a node's sensors see into a file there.", declare=_declare, run=_run
)
