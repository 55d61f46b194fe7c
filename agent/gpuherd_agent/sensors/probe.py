"""The GPU probe: asks a child process and never waits for a driver longer than the deadline.

A missed deadline is a reading, returned before anything is done about the child. This module decides
when a child is given up and when a new one is tried; it judges no reading.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.backend import reference
from gpuherd_agent.sensors.child import ChildGone, ProbeChild, command
from gpuherd_agent.sensors.probe_settings import ProbeSettings

MAX_STUCK: Final = 3
"""No new child is started beside this many that cannot be ended: each holds memory and driver state."""

TERM_GRACE_S: Final = 2.0
"""A child that outlives SIGTERM by this long counts as stuck."""


class GpuProbe:
    """Implements ProbeDoor over one child at a time."""

    def __init__(
        self,
        settings: ProbeSettings,
        clock: Clock,
        *,
        environ: Mapping[str, str] = os.environ,
        argv: Sequence[str] | None = None,
    ) -> None:
        """``environ`` is the child's: LD_LIBRARY_PATH selects the library; raises BackendUnknown."""
        self._settings = settings
        self._clock = clock
        self._environ = environ
        self._argv = tuple(argv) if argv is not None else command(reference(settings.backend))
        self._child: ProbeChild | None = None
        self._started_at = 0.0
        self._token = 0
        self._leaving: list[tuple[ProbeChild, float]] = []
        self._failure: ProbeReading | None = None
        self._failures = 0
        self._retry_at = float("-inf")

    async def read(self) -> ProbeReading:
        """Return one cycle's reading within the deadline, or what the last failure was.

        While a new child is not due yet, the last failure stands and returns at once.
        """
        began = self._clock.now()
        reading = await self._read()
        return replace(
            reading, duration_s=self._clock.now() - began, stuck_children=self._stuck(self._clock.now())
        )

    async def close(self) -> None:
        """Tell every child to end and give them a moment; none is waited for or killed."""
        if self._child is not None:
            self._dismiss(self._child)
        for _ in range(50):
            if not self._stuck(float("inf")):
                return
            await asyncio.sleep(0.01)

    @property
    def child_pid(self) -> int | None:
        """Return the pid of the child in use, for the agent's own metrics."""
        return self._child.pid if self._child is not None else None

    async def _read(self) -> ProbeReading:
        now = self._clock.now()
        if self._child is None:
            if self._failure is not None and (now < self._retry_at or self._stuck(now) >= MAX_STUCK):
                return replace(self._failure, is_repeat=True)
            try:
                self._child = await ProbeChild.start(self._argv, self._environ)
            except ChildGone:
                return self._failed(ProbeReading(outcome=ProbeOutcome.CHILD_DIED))
            self._started_at = now
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
                child.ask(self._token)
            reading = await child.answer(self._token, within_s=self._patience_s(is_fresh=is_fresh))
        except TimeoutError:
            if is_fresh and self._clock.now() - self._started_at < self._settings.start_deadline_s:
                if self._failure is None:
                    return ProbeReading(outcome=ProbeOutcome.STARTING)
                return replace(self._failure, is_repeat=True)
            missed = self._failure.missed if self._failure is not None else 0
            return self._failed(ProbeReading(outcome=ProbeOutcome.DEADLINE, missed=missed + 1))
        except ChildGone:
            return self._failed(ProbeReading(outcome=ProbeOutcome.CHILD_DIED), at_once=not is_fresh)
        if reading.outcome is not ProbeOutcome.OK:
            return self._failed(reading)
        self._failure, self._failures = None, 0
        return reading

    def _patience_s(self, *, is_fresh: bool) -> float:
        if not is_fresh:
            return self._settings.deadline_s
        left_s = self._started_at + self._settings.start_deadline_s - self._clock.now()
        return min(self._settings.deadline_s, max(0.0, left_s))

    def _failed(self, reading: ProbeReading, *, at_once: bool = False) -> ProbeReading:
        """Give the child up. One that died after it had worked is replaced without a pause, once."""
        if self._child is not None:
            self._dismiss(self._child)
        pause_s = self._settings.backoff_s * 2.0**self._failures
        if at_once and self._failures == 0:
            pause_s = 0.0
        self._failures = min(self._failures + 1, 30)
        self._retry_at = self._clock.now() + min(pause_s, self._settings.backoff_max_s)
        self._failure = reading
        return reading

    def _dismiss(self, child: ProbeChild) -> None:
        child.dismiss()
        self._leaving.append((child, self._clock.now()))
        self._child = None

    def _stuck(self, now: float) -> int:
        """Return how many dismissed children should be gone by now and are not."""
        self._leaving = [(child, since) for child, since in self._leaving if not child.has_ended()]
        return sum(now - since >= TERM_GRACE_S for _, since in self._leaving)
