"""``agentctl ack``: end latched findings of a node by a person's word, which is recorded."""

import argparse

from gpuherd.names import parse_node
from gpuherd.rest import CommandRequest
from gpuherd_ctl.commanding import command
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    parser.add_argument(
        "finding",
        nargs="?",
        default="",
        metavar="FINDING",
        help="rule such as gpu_lost; none = all latched ones",
    )
    parser.add_argument("--gpu", default="", metavar="UUID", help="only the finding of this GPU")
    parser.add_argument("--reason", required=True, help="why it is settled; stands in the record")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    request = CommandRequest(
        verb="ack",
        arguments={"finding": given.finding, "gpu": given.gpu},
        by=session.user,
        reason=given.reason,
    )
    return command(session, parse_node(given.node), request)


VERB = Verb(name="ack", summary="End latched findings of a node, with a reason.", declare=_declare, run=_run)
