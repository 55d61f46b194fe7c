"""What is to be done when. Equal instants keep the order in which they were set."""

import heapq
from collections.abc import Callable
from typing import Final

NEVER: Final = float("inf")


class Timers:
    """A heap of calls. A call that is no longer wanted finds that out by itself when it comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call ``act(now)`` at the first tick at or after ``when``."""
        self._number += 1
        heapq.heappush(self._heap, (when, self._number, act))

    @property
    def deadline(self) -> float:
        """When the next call is due; NEVER without any."""
        return self._heap[0][0] if self._heap else NEVER

    def pop_due(self, now: float) -> tuple[float, Callable[[float], None]] | None:
        """Return the earliest call that is due, with the instant it was meant for."""
        if not self._heap or self._heap[0][0] > now:
            return None
        when, _, act = heapq.heappop(self._heap)
        return when, act
