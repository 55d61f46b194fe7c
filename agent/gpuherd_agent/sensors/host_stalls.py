"""What /proc tells of a host that stands still: memory stalls, kills, processes stuck in the driver."""

import re
from pathlib import Path
from typing import Final

_STALL: Final = re.compile(r"^(?P<kind>some|full) avg10=(?P<percent>\d+(?:\.\d+)?)", re.MULTILINE)
_BLOCKED: Final = re.compile(r"^procs_blocked (?P<count>\d+)$", re.MULTILINE)
_KILLS: Final = re.compile(r"^oom_kill (?P<count>\d+)$", re.MULTILINE)
_STAT: Final = re.compile(r"^\d+ \((?P<name>.*)\) (?P<state>\S)", re.DOTALL)
_DRIVER: Final = "nvidia"


def parse_stall(text: str, kind: str) -> float | None:
    """Return PSI's share of the last 10 s in which ``some`` waited or, ``full``, nothing ran."""
    found = next((m for m in _STALL.finditer(text) if m["kind"] == kind), None)
    return float(found["percent"]) / 100.0 if found else None


def parse_blocked(text: str) -> int | None:
    """Return how many processes wait for input or output right now, from /proc/stat."""
    found = _BLOCKED.search(text)
    return int(found["count"]) if found else None


def parse_kills(text: str) -> int | None:
    """Return how many processes the kernel has killed for lack of memory, from /proc/vmstat."""
    found = _KILLS.search(text)
    return int(found["count"]) if found else None


def is_stuck_in_driver(stat: str) -> bool:
    """Say whether /proc/PID/stat is of a process of the driver in state D."""
    found = _STAT.match(stat)
    return found is not None and found["state"] == "D" and found["name"].startswith(_DRIVER)


class HostStalls:
    """Reads below ``proc``. Each place that cannot be read is None."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def memory_stall_ratio(self) -> float | None:
        """Return the share of the last 10 s in which nothing ran for lack of memory."""
        return self._stall("memory", "full")

    def io_stall_ratio(self) -> float | None:
        """Return the share of the last 10 s in which nothing ran since all waited for input or output."""
        return self._stall("io", "full")

    def cpu_stall_ratio(self) -> float | None:
        """Return the share of the last 10 s in which somebody waited for a CPU."""
        return self._stall("cpu", "some")

    def _stall(self, what: str, kind: str) -> float | None:
        text = _read(self._proc / "pressure" / what)
        return None if text is None else parse_stall(text, kind)

    def blocked_processes(self) -> int | None:
        """Return how many processes of any kind wait for input or output right now."""
        text = _read(self._proc / "stat")
        return None if text is None else parse_blocked(text)

    def kills(self) -> int | None:
        """Return how many processes the kernel has killed for lack of memory since boot."""
        text = _read(self._proc / "vmstat")
        return None if text is None else parse_kills(text)

    def stuck_processes(self) -> int | None:
        """Return how many processes of the driver hang in the kernel. Costs a read for each process."""
        try:
            entries = [entry for entry in self._proc.iterdir() if entry.name.isdecimal()]
        except OSError:
            return None
        return sum(is_stuck_in_driver(_read(entry / "stat") or "") for entry in entries)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
