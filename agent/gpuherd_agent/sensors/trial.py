"""Tries a GPU that hung once more, in a short-lived child of its own: no other GPU waits for it.

Which GPU and when is Isolation's to say; here it is only carried out, a step at each look.
"""

from collections.abc import Mapping

from gpuherd.names import GpuUuid
from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.backend import Ask
from gpuherd_agent.sensors.child import ChildGone, ProbeChild
from gpuherd_agent.sensors.children import Children
from gpuherd_agent.sensors.isolation import Isolation
from gpuherd_agent.sensors.probe_settings import ProbeSettings

_TOKEN = 1


class Trial:
    """At most one GPU is tried at a time."""

    def __init__(
        self,
        settings: ProbeSettings,
        clock: Clock,
        *,
        children: Children,
        isolation: Isolation,
        names: Mapping[int, GpuUuid],
    ) -> None:
        """``names`` are the UUIDs of the indexes, kept up to date by who reads all GPUs."""
        self._names = names
        self._settings = settings
        self._clock = clock
        self._children = children
        self._isolation = isolation
        self._child: ProbeChild | None = None
        self._index = 0

    async def step(self) -> None:
        """Take what the trial came to, or begin the one that is due; returns at once."""
        if self._child is None:
            await self._begin()
            return
        try:
            reading = await self._child.answer_at_hand(_TOKEN)
        except ChildGone:
            self._end(self._child, ProbeReading(outcome=ProbeOutcome.CHILD_DIED))
            return
        if reading is not None or self._is_late(self._child):
            self._end(self._child, reading)

    async def _begin(self) -> None:
        index = self._isolation.due(self._clock.now(), self._children.occupied())
        if index is None or not self._children.has_room:
            return
        self._index = index
        try:
            child = await self._children.start()
        except ChildGone:
            self._isolation.failed(index, self._clock.now())
            return
        self._child = child
        try:
            child.ask(Ask(token=_TOKEN, only=index))
        except ChildGone:
            self._end(child, ProbeReading(outcome=ProbeOutcome.CHILD_DIED))

    def _is_late(self, child: ProbeChild) -> bool:
        now = self._clock.now()
        is_over = now - child.started_at >= self._settings.start_deadline_s
        return is_over or child.look().is_hung(now, self._settings)

    def _end(self, child: ProbeChild, reading: ProbeReading | None) -> None:
        """Let the child go; an answer, be it that the GPU is lost, lets the GPU in again."""
        now = self._clock.now()
        self._child = None
        self._children.dismiss(child, self._names)
        if reading is not None and reading.outcome is ProbeOutcome.OK:
            self._isolation.passed(self._index, now)
        else:
            self._isolation.failed(self._index, now, call=child.place.call if reading is None else "")
