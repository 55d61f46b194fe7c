"""The GPU probe: asks a child process and never waits for a driver longer than the deadline.

A missed deadline is a reading. This module decides when a child is given up and when a new one is tried;
it judges no reading. A single GPU that hangs is left out of the next child's cycle.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuherd.names import GpuUuid
from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import NvmlCode, ProbeOutcome, ProbeProcess, ProbeReading
from gpuherd_agent.sensors.backend import Ask, reference
from gpuherd_agent.sensors.child import ChildGone, ProbeChild, command
from gpuherd_agent.sensors.children import Children
from gpuherd_agent.sensors.isolation import Isolation
from gpuherd_agent.sensors.probe_settings import ProbeSettings
from gpuherd_agent.sensors.trial import Trial


class GpuProbe:
    """Implements ProbeDoor over one child of all GPUs, and one more for a GPU that is tried again."""

    def __init__(
        self,
        settings: ProbeSettings,
        clock: Clock,
        *,
        environ: Mapping[str, str] = os.environ,
        argv: Sequence[str] | None = None,
        left: Sequence[ProbeProcess] = (),
    ) -> None:
        """``environ`` is the child's: LD_LIBRARY_PATH selects the library; raises BackendUnknown.

        ``left`` are the processes that an earlier run of the agent had.
        """
        self._settings = settings
        self._clock = clock
        argv = argv if argv is not None else command(reference(settings.backend))
        self._children = Children(argv, environ, clock, left)
        self._isolation = Isolation(pause_s=settings.backoff_s, pause_max_s=settings.backoff_max_s)
        self._names: dict[int, GpuUuid] = {}
        self._trial = Trial(
            settings, clock, children=self._children, isolation=self._isolation, names=self._names
        )
        for process in self._children.alive():
            self._isolation.inherits(process, clock.now())
        self._child: ProbeChild | None = None
        self._token = 0
        self._failure: ProbeReading | None = None
        self._failures = 0
        self._missed = 0
        self._retry_at = float("-inf")

    async def read(self) -> ProbeReading:
        """Return one cycle's reading within the deadline, or what the last failure was.

        While a new child is not due yet, the last failure stands and returns at once.
        """
        began = self._clock.now()
        reading = await self._read()
        took_s = self._clock.now() - began
        await self._trial.step()
        for process in self._children.stuck(self._settings.deadline_s):
            if process.index is not None:
                self._isolation.sits_on(process.index)
        return replace(
            reading,
            duration_s=took_s,
            stuck_children=len(self._children.stuck()),
            hung=self._isolation.hung,
            children=self._children.alive(),
        )

    async def close(self) -> None:
        """Tell every child to end and give them a moment; none is waited for or killed."""
        self._child = None
        await self._children.close()

    @property
    def child_pid(self) -> int | None:
        """Return the pid of the child in use, for the agent's own metrics."""
        return self._child.pid if self._child is not None else None

    async def _read(self) -> ProbeReading:
        now = self._clock.now()
        if self._child is None:
            if self._failure is not None and (now < self._retry_at or not self._children.has_room):
                return replace(self._failure, is_repeat=True)
            if not self._children.has_room:  # at the agent's start, beside those of its last run
                return self._failed(ProbeReading(outcome=ProbeOutcome.DEADLINE, missed=self._miss()))
            try:
                self._child = await self._children.start()
            except ChildGone:
                return self._failed(ProbeReading(outcome=ProbeOutcome.CHILD_DIED))
            self._token += 1
            return await self._ask(self._child, send=True)
        if self._child.has_answered:
            self._token += 1
        return await self._ask(self._child, send=self._child.has_answered)

    async def _ask(self, child: ProbeChild, *, send: bool) -> ProbeReading:
        """Wait for the answer; a fresh child's first one may take several reads."""
        is_fresh = not child.has_answered
        try:
            if send:
                child.ask(Ask(token=self._token, skip=self._isolation.skip))
            reading = await child.answer(self._token, within_s=self._patience_s(child))
        except TimeoutError:
            if is_fresh and self._may_still_start(child):
                if self._failure is None:
                    return ProbeReading(outcome=ProbeOutcome.STARTING)
                return replace(self._failure, is_repeat=True)
            return self._hung(child)
        except ChildGone:
            return self._failed(ProbeReading(outcome=ProbeOutcome.CHILD_DIED), at_once=not is_fresh)
        if reading.outcome is not ProbeOutcome.OK:
            # A driver that was loaded anew below a child that worked: a fresh one works again.
            return self._failed(reading, at_once=not is_fresh and reading.code == NvmlCode.UNINITIALIZED)
        self._failure, self._failures, self._missed = None, 0, 0
        self._isolation.answers(reading.counted)
        self._names.update({gpu.index: gpu.gpu for gpu in reading.gpus})
        return reading

    def _patience_s(self, child: ProbeChild) -> float:
        if child.has_answered:
            return self._settings.deadline_s
        left_s = child.started_at + self._settings.start_deadline_s - self._clock.now()
        return min(self._settings.deadline_s, max(0.0, left_s))

    def _may_still_start(self, child: ProbeChild) -> bool:
        now = self._clock.now()
        is_over = now - child.started_at >= self._settings.start_deadline_s
        return not (is_over or child.look().is_hung(now, self._settings))

    def _hung(self, child: ProbeChild) -> ProbeReading:
        """Give the child up; a single GPU that is to blame is left out by the next one, at once."""
        now, place = self._clock.now(), child.look()
        is_of_gpu = place.blames_gpu(now, self._settings.deadline_s)
        if is_of_gpu and self._isolation.hangs(place, self._names.get(place.index), now):
            reading = ProbeReading(outcome=ProbeOutcome.DEADLINE, call=place.call)
            return self._failed(reading, at_once=True)
        return self._failed(ProbeReading(outcome=ProbeOutcome.DEADLINE, missed=self._miss(), call=place.call))

    def _miss(self) -> int:
        self._missed += 1
        return self._missed

    def _failed(self, reading: ProbeReading, *, at_once: bool = False) -> ProbeReading:
        """Give the child up. One that died after it had worked is replaced without a pause, once."""
        if self._child is not None:
            self._children.dismiss(self._child, self._names)
            self._child = None
        pause_s = self._settings.backoff_s * 2.0**self._failures
        if at_once and self._failures <= len(self._isolation.skip):
            pause_s = 0.0
        self._failures = min(self._failures + 1, 30)
        self._retry_at = self._clock.now() + min(pause_s, self._settings.backoff_max_s)
        self._failure = reading
        return reading
