"""``agentctl evidence``: let a node pack what is known of a GPU into one file on that node."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("gpu", nargs="?", default="", metavar="GPU", help="its UUID; none = the whole node")
    parser.add_argument("--reason", default="", help="stands in the bundle")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = CommandRequest(
        verb="evidence", arguments={"gpu": given.gpu}, by=session.user, reason=given.reason
    )
    return command(session, parse_node(given.node), request)


VERB = Verb(
    name="evidence", summary="Pack readings, kernel log and processes of a node.", declare=_declare, run=_run
)
