"""Processes of this host as /proc tells them. Pid and start time together name one over pid reuse.

Field meanings: proc_pid_stat(5). A process that ends while it is read is simply not there.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_GONE: Final = frozenset(b"ZX")
"""States of a process that has ended and only waits to be collected by its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process at the instant of reading."""

    pid: int
    parent: int
    session: int
    state: str
    started_ticks: int

    @property
    def is_running(self) -> bool:
        """Say whether it has not ended; one that is stopped or stuck in the kernel has not."""
        return self.state.encode() not in {bytes([state]) for state in _GONE}

    @property
    def is_stopped(self) -> bool:
        """Say whether SIGSTOP or a debugger halts it: it acts on no signal but KILL and CONT then."""
        return self.state in {"T", "t"}


def parse_stat(text: bytes) -> Process | None:
    """Return the process that a ``stat`` file tells of, None when it is none.

    The second field is the program's name in brackets and may itself contain spaces and brackets.
    """
    pid, _, rest = text.partition(b" (")
    fields = rest.rpartition(b") ")[2].split()
    try:
        return Process(
            pid=int(pid),
            state=fields[0].decode(),
            parent=int(fields[1]),
            session=int(fields[3]),
            started_ticks=int(fields[19]),
        )
    except (IndexError, ValueError):
        return None


def read(pid: int) -> Process | None:
    """Return the process with this pid, None when there is none."""
    text = _content(pid, "stat")
    return None if text is None else parse_stat(text)


def running() -> Iterator[Process]:
    """Yield every process that has not ended; about 10 us each."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            process = read(int(entry.name))
            if process is not None and process.is_running:
                yield process


def command(pid: int) -> tuple[str, ...]:
    """Return its arguments; empty for a kernel thread and for one that has ended."""
    text = (_content(pid, "cmdline") or b"").rstrip(b"\0")
    return tuple(os.fsdecode(word) for word in text.split(b"\0")) if text else ()


def has_variable(pid: int, name: str, value: str) -> bool:
    """Say whether it was started with this variable; another user's process reads as without."""
    return f"{name}={value}".encode() in (_content(pid, "environ") or b"").split(b"\0")


def variable(pid: int, name: str) -> str:
    """Return the value of a variable that it was started with, empty when it had none or cannot be read."""
    start = f"{name}=".encode()
    for word in (_content(pid, "environ") or b"").split(b"\0"):
        if word.startswith(start):
            return word.removeprefix(start).decode(errors="replace")
    return ""


def boot_s(process: Process) -> float:
    """Return when it was started, in seconds of boot time."""
    return process.started_ticks / os.sysconf("SC_CLK_TCK")


def is_same(process: Process) -> bool:
    """Say whether exactly this process has not ended yet."""
    now = read(process.pid)
    return now is not None and now.started_ticks == process.started_ticks and now.is_running


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it has ended or is not ours to signal."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = read(process.pid)
        if now is None or now.started_ticks != process.started_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def boot_id() -> str:
    """Return the id of this boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _content(pid: int, name: str) -> bytes | None:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return None
