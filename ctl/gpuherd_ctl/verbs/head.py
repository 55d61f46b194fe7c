"""``agentctl head``: ask Ray's head who it is, or start it again where it has gone.

The questions go through ``gpuherd-gcs``, a process of its own, so that agentctl stays quick.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd.errors import HeadFault
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

_HELPER: Final = (sys.executable, "-P", "-m", "gpuherd.shell.gcs_command")
_START: Final = "systemctl restart gpuherd-head"
_ANSWER_S: Final = 60.0
"""How long a started head may take to answer; a loaded host needs 25 s."""
_POLL_S: Final = 1.0
_START_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one question. ``fault`` None = the head answered; OTHER covers what has no name."""

    fault: HeadFault | None
    said: Mapping[str, object]

    @property
    def detail(self) -> str:
        """Return the reason in the helper's words."""
        return str(self.said.get("detail", "the helper gave no answer"))


def _declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    check = actions.add_parser(
        "check", help="versions, session and mode of the head, or why it does not answer"
    )
    rebuild = actions.add_parser("rebuild", help="start the head again; refused while one answers there")
    for one in (check, rebuild):
        one.add_argument("address", metavar="HOST:PORT")
        one.add_argument("--token-file", default="", metavar="FILE", help="Ray's token")
    rebuild.add_argument("--start", default=_START, metavar="COMMAND", help=f"how to start it ({_START})")
    rebuild.add_argument("--tries", type=int, default=3, help="starts before giving up (3)")
    rebuild.add_argument(
        "--storage",
        type=Path,
        metavar="DIR",
        help="where the head keeps its state; with it raylets stay, without it each node rejoins",
    )
    rebuild.add_argument("-y", "--yes", action="store_true", help="do not ask when there is no storage")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    return _check(given, session) if given.action == "check" else _rebuild(given, session)


def _check(given: argparse.Namespace, session: Session) -> ExitCode:
    answer = _ask(given)
    if answer.fault is not None:
        code = ExitCode.REFUSED if answer.fault is HeadFault.TOKEN else ExitCode.UNREACHABLE
        raise Trouble(code, f"head {given.address}: {answer.fault.value}: {answer.detail}")
    session.paper.json(dict(answer.said))
    for key, words in (("ray", "Ray"), ("python", "Python"), ("session", "session")):
        session.paper.line(f"{words:8} {answer.said.get(key)}")
    if answer.said.get("is_open") is True:
        session.paper.line("WARNING  it also answers without a token: whoever reaches it can run code")
    return ExitCode.DONE


def _rebuild(given: argparse.Namespace, session: Session) -> ExitCode:
    _refuse_beside_a_living_one(given, _ask(given))
    keeps = given.storage is not None and given.storage.is_dir() and any(given.storage.iterdir())
    if not keeps and not given.yes:
        _confirm(given, session)
    for number in range(1, max(1, given.tries) + 1):
        session.paper.remark(f"try {number}: {given.start}")
        if _started(given.start) and _answers_soon(given, session):
            kept = "its state was kept: raylets go on" if keeps else "it is a new cluster: every node rejoins"
            session.paper.line(f"head {given.address} answers; {kept}")
            return ExitCode.DONE
    raise Trouble(
        ExitCode.FAILED,
        f"head {given.address} does not answer after {given.tries} starts",
        "journalctl -u gpuherd-head",
    )


def _refuse_beside_a_living_one(given: argparse.Namespace, answer: Answer) -> None:
    """Raise Trouble unless nothing listens there. A silent one may be alive: two heads split a fleet."""
    if answer.fault is None or answer.fault is HeadFault.TOKEN:
        raise Trouble(
            ExitCode.REFUSED, f"a head answers at {given.address}; nothing was done", "agentctl head check"
        )
    if answer.fault in (HeadFault.SILENT, HeadFault.FOREIGN):
        raise Trouble(
            ExitCode.PRECONDITION,
            f"something holds {given.address}: {answer.detail}",
            "end it first: `ss -ltnp` on that host names it",
        )
    if answer.fault is HeadFault.UNRESOLVED:
        raise Trouble(ExitCode.USAGE, f"{given.address} has no address", "give the head's own address")


def _confirm(given: argparse.Namespace, session: Session) -> None:
    if session.ask is None:
        raise Trouble(
            ExitCode.USAGE, "there is no kept state and nobody can be asked", "give --yes or --storage"
        )
    where = given.storage or "no --storage given"
    if not session.ask(f"No state is kept ({where}): all running jobs are lost. Start an empty head?"):
        raise Trouble(ExitCode.FAILED, "not confirmed; nothing was done")


def _started(command: str) -> bool:
    import subprocess  # noqa: PLC0415  only this verb needs it, and every verb would pay its 4 ms

    try:
        return subprocess.run(shlex.split(command), check=False, timeout=_START_S).returncode == 0  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False


def _answers_soon(given: argparse.Namespace, session: Session) -> bool:
    waited_s = 0.0
    while _ask(given).fault is not None:
        if waited_s >= _ANSWER_S:
            return False
        session.wait(_POLL_S)
        waited_s += _POLL_S
    return True


def _ask(given: argparse.Namespace) -> Answer:
    import subprocess  # noqa: PLC0415  as above

    token = ("--token-file", given.token_file) if given.token_file else ()
    command = [*_HELPER, "--address", given.address, *token, "versions"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=_START_S)  # noqa: S603
    if done.returncode == ExitCode.USAGE:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise Trouble(ExitCode.USAGE, words[-1] if words else "the helper refused its arguments")
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {}
    if done.returncode == ExitCode.DONE:
        return Answer(fault=None, said=said)
    if done.returncode == ExitCode.REFUSED:
        return Answer(fault=HeadFault.TOKEN, said=said)
    named = next((fault for fault in HeadFault if fault.value == said.get("fault")), HeadFault.OTHER)
    return Answer(fault=named, said=said)


VERB = Verb(name="head", summary="Ask Ray's head who it is, or start it again.", declare=_declare, run=_run)
