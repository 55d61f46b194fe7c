"""Smoke work seen from the agent: a short-lived child for one GPU, with a deadline."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gpuherd.names import GpuUuid
from gpuherd_agent import programs
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.doors import Smoked, SmokeOutcome
from gpuherd_agent.site_settings import PreflightSettings

_MODULE: Final = "gpuherd_agent.sensors.smoke_child"


class SmokeWork:
    """``gpuherd_agent.doors.SmokeDoor``. A child that hangs is asked to end and left, never killed."""

    def __init__(self, settings: PreflightSettings, environ: Mapping[str, str]) -> None:
        self._deadline_s = settings.smoke_deadline_s
        self._environ = environ
        self._stuck: Process | None = None

    async def run(self, gpu: GpuUuid) -> Smoked:
        """Return what became of one GPU's work. While a child hangs in the driver no other is started."""
        if self._stuck is not None and processes.is_same(self._stuck):
            still = f"an earlier one (pid {self._stuck.pid}) still hangs"
            return Smoked(outcome=SmokeOutcome.HUNG, detail=still)
        self._stuck = None
        ended = await programs.run(
            Path(sys.executable),
            arguments=("-m", _MODULE, gpu),
            deadline_s=self._deadline_s,
            environment={**self._environ, "CUDA_VISIBLE_DEVICES": gpu},
            may_kill=False,
        )
        if ended.is_late:
            self._stuck = ended.process
            return Smoked(outcome=SmokeOutcome.HUNG, detail=f"no end within {self._deadline_s:g} s")
        return parse(ended.code, ended.output)


def parse(code: int | None, output: str) -> Smoked:
    """Return the child's word; one that ended without any has failed."""
    last = output.splitlines()[-1] if output else ""
    try:
        return msgspec.json.decode(last, type=Smoked)
    except msgspec.DecodeError:
        return Smoked(outcome=SmokeOutcome.FAILED, detail=f"the child ended with {code}: {last[:200]}")
