"""A trigger by the clock: so many nodes while a window is open, none outside."""

from gpuherd_autoscaler.triggers.kinds import Source, Surroundings
from gpuherd_autoscaler.triggers.settings import Trigger
from gpuherd_autoscaler.windows import Window, is_open


class ScheduleSource:
    """Reads the wall clock."""

    def __init__(self, nodes: int, windows: tuple[Window, ...], around: Surroundings) -> None:
        self._nodes = nodes
        self._windows = windows
        self._clock = around.clock

    async def read(self) -> float:
        """Return the nodes while the window is open, and 0 outside."""
        return self._nodes if any(is_open(window, self._clock.wall()) for window in self._windows) else 0.0

    async def close(self) -> None:
        """Hold nothing."""


def make(trigger: Trigger, around: Surroundings) -> Source:
    """Return the source of one trigger."""
    windows = tuple(window for window in around.windows if window.name == trigger.window)
    return ScheduleSource(trigger.nodes, windows, around)
