"""The host's memory, disk and load, by psutil: the agent's one door to it."""

import os
from pathlib import Path
from typing import Final

import psutil

from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import HostReading

_SHM: Final = Path("/dev/shm")  # noqa: S108  where Ray keeps its object store; only its free space is read


class HostSensor:
    """Implements HostDoor. ``disk`` is any path on the file system that Ray spills to."""

    def __init__(self, clock: Clock, *, disk: Path = Path("/"), shm: Path = _SHM) -> None:
        self._clock = clock
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
        )
