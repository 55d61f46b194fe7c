"""Asks each mount that must answer, all at once, by a small program each with a deadline of its own.

A file server that is gone holds whoever asks it, so the agent never asks itself.
"""

import asyncio
from pathlib import Path
from typing import Final

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_agent.sensors.inquiry import Inquiry, words
from gpuherd_agent.sensors.mount_table import parse_mount_points
from gpuherd_agent.sensors.sensor_settings import SensorSettings
from gpuherd_agent.surroundings import MountReading, MountsReading, MountState

_STAT: Final = Path("/usr/bin/stat")
_PLAIN: Final = {"LC_ALL": "C"}

log = logs.get("gpuherd.agent")


class MountsSensor:
    """``reading`` is the last round's; ``run`` goes on for ever."""

    def __init__(self, settings: SensorSettings, clock: Clock, *, stat: Path = _STAT) -> None:
        self._settings = settings
        self._clock = clock
        self._table = Path(settings.root) / "proc/self/mountinfo"
        self._asked = {
            path: Inquiry(stat, _PLAIN, deadline_s=settings.mount_deadline_s) for path in settings.mounts
        }
        self._told: dict[str, MountState] = {}
        self.reading: MountsReading | None = None

    async def run(self) -> None:
        """Make a round each period until cancelled."""
        due = self._clock.now()
        while True:
            await self.round()
            due = max(due + self._settings.mount_period_s, self._clock.now())
            await self._clock.sleep_until(due)

    async def round(self) -> None:
        """Ask every mount once."""
        points = self._points()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._one(path, points)) for path in self._asked]
        self.reading = MountsReading(at=self._clock.now(), mounts=tuple(task.result() for task in asked))
        for mount in self.reading.mounts:
            if self._told.get(mount.path, MountState.OK) is not mount.state:
                log.info("mount.changed", path=mount.path, state=mount.state.value, detail=mount.detail)
            self._told[mount.path] = mount.state

    def _points(self) -> frozenset[str] | None:
        try:
            return parse_mount_points(self._table.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None

    async def _one(self, path: str, points: frozenset[str] | None) -> MountReading:
        if points is not None and path not in points:
            return MountReading(path=path, state=MountState.ABSENT, detail="nothing is mounted there")
        ended = await self._asked[path].ask("-f", "-c", "%T", "--", path)
        why = words(ended, self._settings.mount_deadline_s)
        if not why:
            return MountReading(path=path, state=MountState.OK, took_s=ended.took_s)
        state = MountState.SILENT if ended.is_late else MountState.FAILED
        return MountReading(path=path, state=state, detail=why, took_s=ended.took_s)
