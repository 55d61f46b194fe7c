"""``agentctl decisions``: what was decided, a line for each change."""

import argparse

from gpuherd.rest_plan import Decisions
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import clock_text
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--number", type=int, default=20, metavar="N", help="how many (default 20)")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    found = session.scaler.get(f"/decisions?limit={given.number}", Decisions)
    session.paper.json(found)
    rows = [
        (str(d.id), clock_text(d.at), clock_text(d.last_at), f"x{d.times}", str(d.term), d.mode, d.words)
        for d in reversed(found.decisions)
    ]
    session.paper.table(("ID", "FROM", "TO", "TIMES", "TERM", "MODE", "DECISION"), rows)
    return ExitCode.DONE


VERB = Verb(name="decisions", summary="List what was decided, and when.", declare=_declare, run=_run)
