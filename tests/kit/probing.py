"""A GPU probe over the C library and a scenario, which leaves no child behind."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from gpuherd.shell.clock import SystemClock
from gpuherd_agent.readings import ProbeOutcome, ProbeProcess, ProbeReading
from gpuherd_agent.sensors.probe import GpuProbe
from gpuherd_agent.sensors.probe_settings import ProbeSettings
from gpuherd_sim.gpus.scenario import Scenario
from gpuherd_sim.gpus.scenario_file import VARIABLE

QUICK = ProbeSettings(
    deadline_s=0.5, start_deadline_s=10.0, wake_deadline_s=0.5, backoff_s=0.1, backoff_max_s=0.2
)
HOST = Scenario(host="probe-test").having({"gpus": 8})


@asynccontextmanager
async def probing(
    scenario: Path,
    library: Path | None,
    settings: ProbeSettings = QUICK,
    left: Sequence[ProbeProcess] = (),
) -> AsyncIterator[GpuProbe]:
    """Run a probe; afterwards no child of it may be left."""
    environ = {**os.environ, VARIABLE: str(scenario), "LD_LIBRARY_PATH": str(library or "/nonexistent")}
    before = {c.pid for c in psutil.Process().children()}
    probe = GpuProbe(settings, SystemClock(), environ=environ, left=left)
    try:
        yield probe
    finally:
        await probe.close()
        left_over = [c for c in psutil.Process().children() if c.pid not in before]
        _, stuck = psutil.wait_procs(left_over, timeout=5.0)
        for child in stuck:
            child.kill()
        assert not stuck


async def first_good(probe: GpuProbe) -> ProbeReading:
    """Return the first reading that is one."""
    for _ in range(100):
        reading = await probe.read()
        if reading.outcome is ProbeOutcome.OK:
            return reading
        await asyncio.sleep(0.1)
    raise AssertionError(f"no good reading, the last one was {reading}")
