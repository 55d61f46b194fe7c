"""Xids since the agent's start, by board and code, and when the last one came. Pure memory, bounded."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import KernelKind, Snapshot
from gpuherd_agent.rules.kernel import short_bus

KEPT: Final = 512
"""Pairs of board and code; more are a storm of nonsense, and counted under none."""


@dataclass(frozen=True, slots=True)
class Xids:
    """``gpu`` is empty for a board that the driver did not name. ``last_at`` is wall-clock seconds."""

    gpu: GpuUuid | str
    code: int
    count: int
    last_at: float


@dataclass(slots=True)
class XidTally:
    """Feed every look in."""

    missed: int = 0
    """Lines of the kernel log that were not told: overwritten, or repeated within one look."""
    _counts: dict[tuple[GpuUuid | str, int], tuple[int, float]] = field(default_factory=dict)

    def take(self, snapshot: Snapshot, wall: float) -> None:
        """Count the Xids of this look."""
        if snapshot.kernel is None:
            return
        self.missed += snapshot.kernel.missed
        boards = {short_bus(bus): gpu for gpu, bus in snapshot.pci_bus_ids.items()}
        for event in snapshot.kernel.events:
            if event.kind is not KernelKind.XID:
                continue
            key = (boards.get(event.bus, ""), event.code)
            if key in self._counts or len(self._counts) < KEPT:
                self._counts[key] = (self._counts.get(key, (0, 0.0))[0] + 1, wall)

    def xids(self) -> Iterator[Xids]:
        """Yield what was counted, by board and code."""
        for (gpu, code), (count, last_at) in sorted(self._counts.items()):
            yield Xids(gpu, code, count, last_at)
