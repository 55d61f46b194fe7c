"""``agentctl history NODE``: what happened to a node and what was done with it."""

import argparse

from gpuherd.rest_plan import History
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import clock_text
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("-n", "--number", type=int, default=50, metavar="N", help="how many (default 50)")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    past = session.scaler.get(f"/nodes/{given.node}/history?limit={given.number}", History)
    session.paper.json(past)
    rows = [(clock_text(e.at), e.kind, e.reason) for e in reversed(past.events)]
    session.paper.table(("AT", "WHAT", "WHY"), rows)
    return ExitCode.DONE


VERB = Verb(name="history", summary="Show what happened to a node.", declare=_declare, run=_run)
