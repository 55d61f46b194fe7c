"""The only door to time. Tests pass a hand-wound or a virtual one."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time for decisions, boot time for deadlines that outlive a process, wall time for people."""

    def now(self) -> float:
        """Return monotonic seconds; never wall-clock."""
        ...

    def boot_s(self) -> float:
        """Return seconds since this boot, sleep included; survives a restart of the process."""
        ...

    def wall(self) -> float:
        """Return seconds of the epoch; may jump."""
        ...

    async def sleep_until(self, deadline: float) -> None:
        """Return once ``now()`` has reached ``deadline``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def boot_s(self) -> float:
        """Return CLOCK_BOOTTIME."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        """Return seconds of the epoch."""
        return time.time()

    async def sleep_until(self, deadline: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(max(0.0, deadline - time.monotonic()))
