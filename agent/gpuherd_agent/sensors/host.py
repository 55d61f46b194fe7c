"""The host's memory, disk and load, by psutil: the agent's one door to it."""

import os
from pathlib import Path
from typing import Final

import psutil

from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import HostReading
from gpuherd_agent.sensors.host_stalls import HostStalls

_SHM: Final = Path("/dev/shm")  # noqa: S108  where Ray keeps its object store; only its free space is read


_STUCK_EVERY_S: Final = 10.0
"""Counting looks at every process of the host."""


class HostSensor:
    """Implements HostDoor. ``disk`` is any path on the file system that Ray spills to."""

    def __init__(self, clock: Clock, *, disk: Path = Path("/"), shm: Path = _SHM) -> None:
        self._clock = clock
        self._stalls = HostStalls()
        self._stuck: int | None = None
        self._counted_at = -_STUCK_EVERY_S
        self._disk = disk
        self._shm = shm

    def read(self) -> HostReading:
        """Return the host now; raises OSError when ``disk`` cannot be looked at."""
        memory = psutil.virtual_memory()
        disk = psutil.disk_usage(str(self._disk))
        return HostReading(
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
            disk_total_bytes=disk.total,
            disk_free_bytes=disk.free,
            shm_free_bytes=psutil.disk_usage(str(self._shm)).free if self._shm.is_dir() else None,
            load_1m=psutil.getloadavg()[0],
            cpu_count=os.cpu_count() or 1,
            uptime_s=self._clock.boot_s(),
            memory_stall_ratio=self._stalls.memory_stall_ratio(),
            io_stall_ratio=self._stalls.io_stall_ratio(),
            cpu_stall_ratio=self._stalls.cpu_stall_ratio(),
            blocked_processes=self._stalls.blocked_processes(),
            oom_kills_total=self._stalls.kills(),
            stuck_processes=self._stuck_now(),
        )

    def _stuck_now(self) -> int | None:
        now = self._clock.now()
        if now - self._counted_at >= _STUCK_EVERY_S:
            self._stuck, self._counted_at = self._stalls.stuck_processes(), now
        return self._stuck
