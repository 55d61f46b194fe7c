"""``agentctl repair``: what would mend a node's worst finding, and what stands in its way."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("gpu", nargs="?", default="", metavar="GPU", help="its UUID; none = any")
    parser.add_argument("--dry-run", action="store_true", help="only show the plan and its guards")
    parser.add_argument("--reason", default="", help="stands in the record")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    arguments = {"gpu": given.gpu, "dry_run": "yes" if given.dry_run else "no"}
    request = CommandRequest(verb="repair", arguments=arguments, by=session.user, reason=given.reason)
    return command(session, parse_node(given.node), request)


VERB = Verb(name="repair", summary="Show how a node's worst finding is mended.", declare=_declare, run=_run)
