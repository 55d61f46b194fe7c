"""``agentctl rules list|explain|test``: hands over to the programs that know the rules."""

import argparse
import os
import sys

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    actions.add_parser("list", help="every rule, what it covers, and whether it acts")
    explain = actions.add_parser("explain", help="limits, source and runbook of one rule")
    explain.add_argument("what", metavar="RULE")
    test = actions.add_parser(
        "test", help="play the traces of a TOML file, or a recording of `record`, under the shipped rules"
    )
    test.add_argument("what", metavar="FILE")


def _run(given: argparse.Namespace, _session: Session) -> ExitCode:
    module = "gpuherd_sim.corpus_command" if given.action == "test" else "gpuherd_agent.rules"
    command = [sys.executable, "-P", "-m", module]
    command += [given.what] if given.action != "list" else []
    command += ["-o", getattr(given, "output", "table")]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter; no shell is meant)


VERB = Verb(name="rules", summary="List, explain and try the health rules.", declare=_declare, run=_run)
