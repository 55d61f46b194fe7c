"""Processes that tests on Ray have started, wherever they went: by their group and by a marker.

A process that lost its parent is known by its session, one that left its session by its marker. Ray's workers
write their titles over their environment (2.60), so both are noted while they still have a parent.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.actuators.ray_command import MARK
from gpuherd_sim.demo.processes import MARK as CREW_MARK

MARKS: Final = (MARK, CREW_MARK)
_EVERY_S: Final = 0.2
"""What lives shorter needs no look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What ran when a test began."""

    processes: Mapping[int, Process]
    launches: frozenset[tuple[str, ...]]
    """Their commands with their markers."""


class Watch:
    """Notes the sessions and markers of everything that descends from this process while it is running."""

    def __init__(self) -> None:
        self._sessions: set[int] = set()
        self._marks: set[str] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator["Watch"]:
        """Look every 0.2 s while the block lasts."""
        is_over = threading.Event()

        def go_on() -> None:
            while not is_over.wait(_EVERY_S):
                self.alive()

        thread = threading.Thread(target=go_on, name="watch", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            is_over.set()
            thread.join()

    def alive(self) -> dict[int, Process]:
        """Return by pid what was started here and runs now."""
        with self._lock:
            own = os.getsid(0)
            running = {p.pid: p for p in processes.running() if p.session != own}
            parents = {pid: p.parent for pid, p in running.items()}
            ours = [p for p in running.values() if os.getpid() in line(p.pid, parents)]
            self._sessions &= {p.session for p in running.values()}
            self._sessions |= {p.session for p in ours}
            self._marks |= {mark for p in ours for mark in marks(p)}
            return {
                pid: p
                for pid, p in running.items()
                if p.session in self._sessions or not self._marks.isdisjoint(marks(p))
            }

    def before(self) -> Before:
        """Return what runs now, for a later ``left``."""
        alive = self.alive()
        return Before(processes=alive, launches=frozenset(map(launch, alive.values())))

    def left(self, before: Before, *, grace_s: float) -> tuple[str, ...]:
        """Return what came after ``before``, belongs to nothing in it, and outlives ``grace_s``."""
        end = time.monotonic() + grace_s
        while found := strays(before, self.alive()):
            if time.monotonic() > end:
                return tuple(f"{p.pid} {' '.join(processes.command(p.pid))[:160]}" for p in found)
            time.sleep(_EVERY_S)
        return ()


def strays(before: Before, now: Mapping[int, Process]) -> tuple[Process, ...]:
    """Return the processes of ``now`` that neither ran before nor belong to something that did.

    The same command under the same marker is what ran before, started again: a head that several tests share.
    """
    ran = before.processes
    sessions = {p.session for p in ran.values()}
    parents = {pid: p.parent for pid, p in now.items()}
    known = {pid for pid, p in ran.items() if pid in now and now[pid].started_ticks == p.started_ticks}
    known |= {pid for pid, p in now.items() if pid == p.session and launch(p) in before.launches}
    return tuple(
        p for p in now.values() if p.session not in sessions and known.isdisjoint(line(p.pid, parents))
    )


def line(pid: int, parents: Mapping[int, int]) -> set[int]:
    """Return the process and its forebears, the last of which need not be in ``parents``."""
    found = {pid}
    while (pid := parents.get(pid, pid)) not in found:
        found.add(pid)
    return found


def launch(process: Process) -> tuple[str, ...]:
    """Return its markers and its command."""
    return (*sorted(marks(process)), *processes.command(process.pid))


def marks(process: Process) -> set[str]:
    """Return the values of its markers."""
    return {value for mark in MARKS if (value := processes.variable(process.pid, mark))}
