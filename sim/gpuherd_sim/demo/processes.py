"""The demo's processes: each in a session of its own, marked, so that all can be found and ended again.

Ray's daemons and workers are started by agents and outlive them on purpose; they inherit the mark.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "GPUHERD_DEMO"
"""Environment variable that names the demo's folder in everything it starts."""

_TERM_S: Final = 8.0
_KILL_S: Final = 5.0
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """A process that ended though it should not have, with the end of its log."""

    name: str
    code: int
    log_tail: str


@dataclass(slots=True)
class Crew:
    """Starts processes whose output goes to ``logs/NAME.log``, and ends everything with the mark."""

    folder: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start one; raises OSError when there is no such program."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**env, MARK: str(self.folder)},
                cwd=self.folder,
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        """Ask one to end by SIGTERM and wait for it; raises TimeoutExpired when it does not in time."""
        process = self._running.pop(name)
        process.terminate()
        process.wait(_TERM_S)

    def pid(self, name: str) -> int:
        """Return the process id of one that was started."""
        return self._running[name].pid

    def kill(self, name: str) -> None:
        """End one as a crash would, by SIGKILL; what it started goes on."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def code(self, name: str, *, within_s: float = 15.0) -> int:
        """Return how one ended by itself; raises TimeoutExpired when it goes on."""
        code = self._running[name].wait(within_s)
        del self._running[name]
        return code

    def fallen(self, *, may_end: Sequence[str] = ()) -> Fallen | None:
        """Return the first process that has ended; those in ``may_end`` may do so with status 0."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None and not (code == 0 and name in may_end):
                return Fallen(name=name, code=code, log_tail=self.log_tail(name))
        return None

    def log_tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of a process's log."""
        with suppress(OSError):
            text = (self.folder / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def dismiss(self) -> bool:
        """End everything; False = something would not die."""
        is_clean = end_marked(self.folder)
        for process in self._running.values():
            process.poll()  # no zombie stays behind
        return is_clean


def end_marked(folder: Path) -> bool:
    """End every process of the demo in ``folder``: TERM, then KILL. False = some would not die."""
    sessions: set[int] = set()
    for _ in range(_ROUNDS):
        found = marked(folder, sessions)
        if not found:
            return True
        for process in found:
            _send(process, signal.SIGTERM)
        _, stubborn = psutil.wait_procs(found, timeout=_TERM_S)
        for process in stubborn:
            _send(process, signal.SIGKILL)
        psutil.wait_procs(stubborn, timeout=_KILL_S)
    return not marked(folder, sessions)


def marked(folder: Path, sessions: set[int]) -> list[psutil.Process]:
    """Return the living processes that a demo in ``folder`` has started, the caller left out.

    They carry the mark, or are of the session of one that does: Ray's workers write their title over
    their environment (setproctitle). The sessions found are added to ``sessions``.
    """
    processes = [p for p in psutil.process_iter() if p.pid != os.getpid()]
    sessions |= {sid for p in processes if _has_mark(p, folder) and (sid := _session(p)) is not None}
    sessions -= {os.getsid(0)}
    return [p for p in processes if _is_alive(p) and (_session(p) in sessions or _has_mark(p, folder))]


def _has_mark(process: psutil.Process, folder: Path) -> bool:
    with suppress(psutil.Error, OSError):
        return process.environ().get(MARK) == str(folder)
    return False


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _session(process: psutil.Process) -> int | None:
    with suppress(OSError):
        return os.getsid(process.pid)
    return None


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.Error):
        process.send_signal(number)
