"""``agentctl verify``: make the checks of a join on a node and show every one of them."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

_TIMEOUT_S = 960.0


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = CommandRequest(verb="verify", by=session.user, timeout_s=_TIMEOUT_S)
    return command(session, parse_node(given.node), request)


VERB = Verb(
    name="verify", summary="Make a node's checks before a join and show them.", declare=_declare, run=_run
)
