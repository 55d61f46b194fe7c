"""One fleet of one program on a bench network: start, fault, listen, measure. Ends all that it started."""

import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from bench.gossip_peers import Peer
from bench.network import Network

_PATIENCE_S: Final = 60.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A line of ``host`` about ``about``; ``at`` is the bench's monotonic clock at its reading."""

    at: float
    host: int
    word: str
    about: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A node's cost with nothing going on: what it sends, headers from IP up, and its share of a core."""

    packets_s: float
    bytes_s: float
    cpu_ratio: float
    rss_mib: float
    pss_mib: float


class Rig:
    """``size`` processes; use it as a context."""

    def __init__(self, peer: Peer, network: Network, folder: Path, size: int) -> None:
        self._peer = peer
        self._network = network
        self._folder = folder
        self.size: Final = size
        self._pids: dict[int, int] = {}
        self._heard: list[Said] = []
        self._selector = selectors.DefaultSelector()
        self._rests: dict[int, bytes] = {}
        self._ends = False
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        """Start all and wait until everybody knows everybody."""
        self._listener.start()
        try:
            for host in range(self.size):
                self.start(host)
                time.sleep(0.3 if host < 2 else 0.05)
            self.until_known(range(self.size))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        self.close()

    def start(self, host: int) -> None:
        """Start one host's process."""
        self._pids[host], handle = self._peer.start(host, self._network, self._folder)
        self._selector.register(handle, selectors.EVENT_READ, host)

    def kill(self, host: int) -> None:
        """Kill -9 one process and take its leavings away."""
        pid = self._pids.pop(host)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def signal(self, host: int, number: int) -> None:
        """Send a signal, such as SIGSTOP."""
        os.kill(self._pids[host], number)

    def said(self, since: float, words: Sequence[str]) -> list[Said]:
        """Return what was said since then, in order."""
        return [one for one in tuple(self._heard) if one.at >= since and one.word in words]

    def known(self, since: float, about: int, words: Sequence[str]) -> dict[int, float]:
        """Return when each host first said one of the words of ``about``."""
        first: dict[int, float] = {}
        for one in self.said(since, words):
            if one.about == about and one.host != about:
                first.setdefault(one.host, one.at)
        return first

    def until(self, is_so: Callable[[], bool], patience_s: float = _PATIENCE_S) -> bool:
        """Wait until it is so; return whether it came to be."""
        end = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def until_known(self, hosts: Sequence[int], since: float = 0.0) -> None:
        """Wait until every other host has said that these joined; raises TimeoutError."""
        wanted = self.size - 1

        def all_known() -> bool:
            return all(len(self.known(since, host, ("joined", "back"))) >= wanted for host in hosts)

        if not self.until(all_known):
            raise TimeoutError(f"{self._peer.name}: not all {self.size} hosts know each other")

    def idle(self, seconds: float) -> Idle:
        """Measure for so long, with nothing going on."""
        before, cpu, at = self._traffic(), self._cpu_s(), time.monotonic()
        time.sleep(seconds)
        after, took = self._traffic(), time.monotonic() - at
        used = self._cpu_s() - cpu
        per = took * len(self._pids)
        return Idle(
            packets_s=round((after[0] - before[0]) / per, 2),
            bytes_s=round((after[1] - before[1]) / per, 1),
            cpu_ratio=round(used / per, 5),
            rss_mib=round(self._memory("Rss"), 1),
            pss_mib=round(self._memory("Pss"), 1),
        )

    def close(self) -> None:
        """End every process that was started, by its pid."""
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids.clear()
        self._ends = True
        self._listener.join(timeout=5)

    def _traffic(self) -> tuple[int, int]:
        """Return (packets, bytes) that all have sent, by the counters of their namespaces (RFC 4293)."""
        packets = octets = 0
        for pid in self._pids.values():
            packets += _counter(Path(f"/proc/{pid}/net/snmp"), "Ip", "OutRequests")
            octets += _counter(Path(f"/proc/{pid}/net/netstat"), "IpExt", "OutOctets")
        return packets, octets

    def _cpu_s(self) -> float:
        ticks = 0
        for pid in self._pids.values():
            fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime, proc(5)
        return ticks / _TICKS_PER_S

    def _memory(self, which: str) -> float:
        total = 0
        for pid in self._pids.values():
            text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{which}:"))
        return total / 1_024 / len(self._pids)

    def _listen(self) -> None:
        while not self._ends:
            for key, _ in self._selector.select(timeout=0.1):
                self._take(key.fd, int(key.data))
        for key in tuple(self._selector.get_map().values()):
            self._drop(key.fd)

    def _take(self, handle: int, host: int) -> None:
        data = os.read(handle, 65_536)
        at = time.monotonic()
        if not data:
            self._drop(handle)
            return
        *lines, self._rests[handle] = (self._rests.get(handle, b"") + data).split(b"\n")
        for line in lines:
            for one in self._peer.parse(line.decode("utf-8", "replace")):
                self._heard.append(Said(at=at, host=host, word=one.word, about=one.about))

    def _drop(self, handle: int) -> None:
        self._selector.unregister(handle)
        self._rests.pop(handle, None)
        os.close(handle)


def _counter(path: Path, group: str, name: str) -> int:
    """Return one number of a file in which a line of names stands above a line of numbers."""
    names, numbers = (
        line.split() for line in path.read_text("ascii").splitlines() if line.startswith(f"{group}:")
    )
    return int(numbers[names.index(name)])
