"""``agentctl config check``: let the daemon that reads a file judge it, without starting anything."""

import argparse
import sys
from pathlib import Path
from typing import Final

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

_MODULES: Final = {"agent": "gpuherd_agent", "autoscaler": "gpuherd_autoscaler"}
_OF_THE_AUTOSCALER: Final = {"scaler", "pool", "api", "ledger"}
"""Sections that only the autoscaler's file has; ``pool`` is a name in the agent's."""


def _declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser("check", help="list every problem of a file with its key path")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--role", choices=tuple(_MODULES), help="whose file it is; else told by its sections")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    # Only this verb needs it, and every verb would pay its 4 ms.
    import subprocess  # noqa: PLC0415

    role = given.role or guess_role(given.file)
    command = [sys.executable, "-P", "-m", _MODULES[role], "--check", "--config", str(given.file)]
    session.paper.out.flush()
    # The child's words are passed through: it alone knows its settings, and agentctl imports core only.
    done = subprocess.run(command, check=False)  # noqa: S603 (our own interpreter and module)
    return ExitCode.DONE if done.returncode == 0 else ExitCode.FAILED


def guess_role(path: Path) -> str:
    """Return whose file it seems to be. One that cannot be read is the agent's: it will say why."""
    import tomllib  # noqa: PLC0415 (as above)

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "agent"
    sections = {key for key, value in table.items() if isinstance(value, dict | list)}
    return "autoscaler" if sections & _OF_THE_AUTOSCALER else "agent"


VERB = Verb(name="config", summary="Check a configuration file.", declare=_declare, run=_run)
