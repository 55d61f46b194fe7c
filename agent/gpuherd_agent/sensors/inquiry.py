"""A question that is put to a program again and again, and never while an earlier one hangs in the kernel."""

from collections.abc import Mapping
from pathlib import Path

from gpuherd_agent import programs
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.programs import Ended


class Inquiry:
    """Make one for each thing that can hang: so there are never more stuck programs than such things."""

    def __init__(self, program: Path, environment: Mapping[str, str], *, deadline_s: float) -> None:
        self._program = program
        self._environment = environment
        self._deadline_s = deadline_s
        self._stuck: Process | None = None

    async def ask(self, *arguments: str) -> Ended:
        """Return how the program ended; late and stuck at once while an earlier one does not end."""
        if self._stuck is not None and processes.is_same(self._stuck):
            return Ended(name=self._program.name, code=None, is_late=True, is_stuck=True, process=self._stuck)
        self._stuck = None
        ended = await programs.run(
            self._program,
            deadline_s=self._deadline_s,
            environment=self._environment,
            arguments=arguments,
        )
        self._stuck = ended.process
        return ended


def words(ended: Ended, deadline_s: float) -> str:
    """Return in words why there is no answer; empty when there is one."""
    if ended.is_stuck:
        pid = ended.process.pid if ended.process is not None else 0
        return f"process {pid} that asked hangs in the kernel"
    if ended.is_late:
        return f"no answer within {deadline_s:g} s"
    if ended.code != 0:
        return ended.output[-200:] or f"exit code {ended.code}"
    return ""
