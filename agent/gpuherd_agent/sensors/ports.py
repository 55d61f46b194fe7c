"""Looks at the InfiniBand and RoCE ports every ten seconds, by a child with a deadline."""

import sys
from pathlib import Path
from typing import Final

from gpuherd.shell.clock import Clock
from gpuherd_agent.port_history import PortHistory
from gpuherd_agent.sensors import ports_child
from gpuherd_agent.sensors.inquiry import Inquiry, words
from gpuherd_agent.sensors.port_lines import parse_ports
from gpuherd_agent.sensors.sensor_settings import SensorSettings
from gpuherd_agent.surroundings import PortsReading

EVERY_S: Final = 10.0
DEADLINE_S: Final = 5.0
"""An adapter answers within milliseconds; the kernel gives a dead one a minute."""


class PortsSensor:
    """``reading`` is the last look's; ``run`` goes on for ever."""

    def __init__(self, settings: SensorSettings, clock: Clock, *, deadline_s: float = DEADLINE_S) -> None:
        self._root = settings.root
        self._clock = clock
        self._deadline_s = deadline_s
        self._inquiry = Inquiry(Path(sys.executable), {}, deadline_s=deadline_s)
        self._history = PortHistory(settings.ports)
        self.reading: PortsReading | None = None

    async def run(self) -> None:
        """Look each period until cancelled."""
        due = self._clock.now()
        while True:
            await self.look()
            due = max(due + EVERY_S, self._clock.now())
            await self._clock.sleep_until(due)

    async def look(self) -> None:
        """Look once."""
        ended = await self._inquiry.ask("-I", "-S", ports_child.__file__, self._root)
        now = self._clock.now()
        if why := words(ended, self._deadline_s):
            self.reading = PortsReading(at=now, why_blind=why)
        else:
            self.reading = self._history.take(tuple(parse_ports(ended.output)), now)
