"""What earlier looks add to a look at the ports: which are to be up, how fast, how often they fell. Pure."""

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

from gpuherd_agent.surroundings import PortReading, PortsReading, PortWatch

WINDOW_S: Final = 600.0
_KEPT: Final = 128


class PortHistory:
    """Feed every look in. ``wanted`` are names that must be up; without any, each that ever was active."""

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self._wanted = tuple(wanted)
        self._active: dict[str, None] = {}
        self._best: dict[str, float] = {}
        self._downs: dict[str, deque[tuple[float, int]]] = {}

    def take(self, ports: Sequence[PortReading], now: float) -> PortsReading:
        """Return the look with what was known before it; ``now`` is monotonic seconds."""
        watches = tuple(self._watch(port, now) for port in ports)
        here = {port.name for port in ports}
        wanted = self._wanted or tuple(self._active)
        return PortsReading(at=now, ports=watches, missing=tuple(n for n in wanted if not _is_in(n, here)))

    def _watch(self, port: PortReading, now: float) -> PortWatch:
        if port.is_active:
            self._active[port.name] = None
        if port.is_active and port.gbps is not None:
            self._best[port.name] = max(port.gbps, self._best.get(port.name, 0.0))
        named = any(_is_in(name, {port.name}) for name in self._wanted)
        return PortWatch(
            port=port,
            is_wanted=named if self._wanted else port.name in self._active,
            best_gbps=self._best.get(port.name),
            recent_downs=self._fallen(port, now),
        )

    def _fallen(self, port: PortReading, now: float) -> int:
        """Return the rise of the counter over the window; one that went back was reset, and begins anew."""
        seen = self._downs.setdefault(port.name, deque(maxlen=_KEPT))
        if port.downs_total is not None:
            seen.append((now, port.downs_total))
        while len(seen) > 1 and now - seen[1][0] >= WINDOW_S:
            seen.popleft()
        return sum(max(0, b - a) for (_, a), (_, b) in itertools.pairwise(seen))


def _is_in(wanted: str, names: set[str]) -> bool:
    """Say whether a wanted name is there; a device without a port means its first one."""
    return wanted in names or f"{wanted}/1" in names
