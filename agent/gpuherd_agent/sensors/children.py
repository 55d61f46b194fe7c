"""All processes of the GPU probe: started within a bound, told to end, and counted until they have ended.

A child inside the driver may be impossible to end (state D). Such a one is left alone, and it counts also
after a restart of the agent: pid and start time name it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuherd.names import GpuUuid
from gpuherd.shell.clock import Clock
from gpuherd_agent.actuators import processes
from gpuherd_agent.readings import ProbeProcess
from gpuherd_agent.sensors.child import ProbeChild

MAX_ALIVE: Final = 3
"""So many processes of the probe at any time, those that cannot be ended among them: each holds memory and
driver state, so no more than these can ever be stuck."""

TERM_GRACE_S: Final = 2.0
"""A child that outlives SIGTERM by this long counts as stuck."""


class Children:
    """Starts children and keeps an eye on those that were told to end."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        clock: Clock,
        left: Sequence[ProbeProcess] = (),
    ) -> None:
        """``left`` are the processes that an earlier run of the agent had."""
        self._argv = tuple(argv)
        self._environ = environ
        self._clock = clock
        self._boot_id = processes.boot_id()
        self._inherited = [p for p in left if p.boot_id == self._boot_id]
        self._inherited_at = clock.now()
        self._alive: dict[ProbeChild, ProbeProcess] = {}

    @property
    def has_room(self) -> bool:
        """Say whether another child may be started."""
        return len(self.alive()) < MAX_ALIVE

    async def start(self) -> ProbeChild:
        """Return a running child; ask ``has_room`` before. Raises ChildGone when it cannot be started."""
        child = await ProbeChild.start(self._argv, self._environ, now=self._clock.now())
        process = processes.read(child.pid)
        ticks = process.started_ticks if process is not None else 0
        self._alive[child] = ProbeProcess(pid=child.pid, started_ticks=ticks, boot_id=self._boot_id)
        return child

    def dismiss(self, child: ProbeChild, names: Mapping[int, GpuUuid]) -> None:
        """Tell a child to end; where it hung is kept. ``names`` are the UUIDs of the indexes."""
        child.dismiss(self._clock.now())
        place = child.place
        index = place.index if place.call else None
        if child in self._alive:
            gpu = None if index is None else names.get(index)
            self._alive[child] = replace(self._alive[child], index=index, gpu=gpu, call=place.call)

    def alive(self) -> tuple[ProbeProcess, ...]:
        """Return every process that has not ended; collects those that have."""
        self._alive = {child: known for child, known in self._alive.items() if not child.has_ended()}
        self._inherited = [p for p in self._inherited if _runs(p)]
        return (*self._inherited, *self._alive.values())

    def stuck(self, for_s: float = TERM_GRACE_S) -> tuple[ProbeProcess, ...]:
        """Return those that were told to end longer ago than this and have not ended."""
        now = self._clock.now()
        self.alive()
        inherited = self._inherited if now - self._inherited_at >= for_s else []
        return (*inherited, *(p for child, p in self._alive.items() if now - child.dismissed_at >= for_s))

    def occupied(self) -> frozenset[int]:
        """Return the indexes of the GPUs in which a process that was told to end still sits."""
        return frozenset(p.index for p in self.alive() if p.index is not None and p.index >= 0)

    async def close(self) -> None:
        """Tell every child to end and give them a moment; none is waited for or killed."""
        for child in self._alive:
            if child.dismissed_at == float("inf"):
                child.dismiss(self._clock.now())
        for _ in range(50):
            self.alive()
            if not self._alive:
                return
            await asyncio.sleep(0.01)


def _runs(process: ProbeProcess) -> bool:
    now = processes.read(process.pid)
    return now is not None and now.is_running and now.started_ticks == process.started_ticks
