"""A clock that the test turns."""

from dataclasses import dataclass

from gpuherd.shell.clock import SystemClock


@dataclass(slots=True)
class HandClock(SystemClock):
    """``at`` is now: monotonic seconds, and 1e9 more of the epoch."""

    at: float = 100.0

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return 1e9 + self.at
