"""``agentctl accept``: take a node's GPUs as they are now, after a swap or a new VBIOS."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--reason", default="", help="what was changed; stands in the record")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = CommandRequest(verb="accept", by=session.user, reason=given.reason)
    return command(session, parse_node(given.node), request)


VERB = Verb(
    name="accept", summary="Take a node's GPUs as they are now for its own.", declare=_declare, run=_run
)
