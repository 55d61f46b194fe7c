"""Runs the site's checks, one after another, and keeps the last word of each.

Never two at once, and none again while an earlier run of it hangs in the kernel.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_agent import programs
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.site_result import SiteReading, Status, read
from gpuherd_agent.site_settings import CheckSettings

CHECKS_MAX: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")

log = logs.get("gpuherd.agent")


class SiteChecks:
    """``readings`` are what the last rounds left; ``run`` goes on for ever."""

    def __init__(self, settings: CheckSettings, clock: Clock, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._clock = clock
        self._environment = environment
        self._stuck: dict[str, Process] = {}
        self._told: dict[str, Status] = {}
        self.readings: tuple[SiteReading, ...] = ()

    async def run(self) -> None:
        """Make a round each period until cancelled."""
        due = self._clock.now()
        while True:
            await self.round()
            due = max(due + self._settings.period_s, self._clock.now())
            await self._clock.sleep_until(due)

    async def round(self) -> None:
        """Run every check once; a check that was taken away is forgotten."""
        paths = self._paths()
        known = {reading.name: reading for reading in self.readings}
        for path in paths:
            known[path.name] = await self._one(path)
            self.readings = tuple(known[p.name] for p in paths if p.name in known)
        self.readings = tuple(known[p.name] for p in paths)

    def _paths(self) -> list[Path]:
        try:
            names = sorted(entry for entry in Path(self._settings.folder).iterdir() if not entry.is_dir())
        except OSError as error:
            if "folder" not in self._told:
                log.warning("checks.unreadable", folder=self._settings.folder, error=error.strerror)
            self._told["folder"] = Status.UNKNOWN
            return []
        self._told.pop("folder", None)
        return [path for path in names if _NAME.fullmatch(path.name)][:CHECKS_MAX]

    async def _one(self, path: Path) -> SiteReading:
        reading = await self._reading(path)
        if self._told.get(path.name) is not reading.status:
            log.info("check.changed", check=path.name, status=reading.status.value, reason=reading.reason)
            self._told[path.name] = reading.status
        return reading

    async def _reading(self, path: Path) -> SiteReading:
        stuck = self._stuck.get(path.name)
        if stuck is not None and processes.is_same(stuck):
            reason = f"an earlier run (pid {stuck.pid}) hangs in the kernel"
            return SiteReading(name=path.name, status=Status.UNKNOWN, reason=reason)
        self._stuck.pop(path.name, None)
        if why := programs.why_not(path):
            return read(path.name, None, why)
        ended = await programs.run(path, deadline_s=self._settings.deadline_s, environment=self._environment)
        if ended.is_stuck and ended.process is not None:
            self._stuck[path.name] = ended.process
        took_s = ended.took_s if ended.is_late or ended.code is not None else 0.0
        return read(path.name, ended.code, ended.output, took_s=took_s, enforce=self._settings.enforce)
