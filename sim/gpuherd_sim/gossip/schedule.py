"""Virtual time: what happens when, in one heap; equal instants keep their order."""

import heapq
from collections.abc import Callable


class Schedule:
    """``now`` is in virtual seconds and moves only in ``run``."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Let ``act`` happen at ``when``, or now if that is past."""
        self._number += 1
        heapq.heappush(self._heap, (max(when, self.now), self._number, act))

    def run(self, until: float) -> None:
        """Let everything up to ``until`` happen."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = until
