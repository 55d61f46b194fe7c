"""Plays a recording in place of this host: what was seen then is seen again now, at the pace of then."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import KernelEvent, KernelReading, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.recording import Look, RecordingInvalid
from gpuherd_agent.sensors.recorded import Recorded
from gpuherd_agent.sensors.sense import Sense

_TOLD_AGAIN: Final = ("host", "devices", "ports", "mounts")
_OVER_S: Final = 5.0
"""So long after its last look a recording is over."""

log = logs.get("gpuherd.agent")


class Replay:
    """Implements ProbeDoor, and ``senses`` are the other sensors. Time begins at the first look.

    What the recording does not tell, and everything after its end, is not known.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the recording; raises RecordingInvalid and OSError."""
        self._recorded = Recorded.open(path)
        self._looks: Iterator[Look] = self._recorded.looks()
        self._clock = clock
        self._began: float | None = None
        self._next = self._following()
        self._first_at = self._next.snapshot.at if self._next is not None else 0.0
        self._now: Snapshot | None = None
        self._last_at = 0.0
        self._events: list[KernelEvent] = []
        self._missed = 0
        self._shown: dict[str, tuple[object, object]] = {}

    async def read(self) -> ProbeReading:
        """Return the probe's reading of this moment; after the end it is not known."""
        self._advance()
        probe = self._now.probe if self._now is not None else None
        return probe or ProbeReading(outcome=ProbeOutcome.STARTING)

    async def close(self) -> None:
        """Nothing to end."""

    def senses(self) -> tuple[Sense, ...]:
        """Return the sensors beside the driver."""
        others = (
            Sense(name=name, look=self._look_at(name), period_s=0.0, is_quick=True) for name in _TOLD_AGAIN
        )
        return (Sense(name="kernel", look=self._kernel, period_s=0.0, is_quick=True), *others)

    def _look_at(self, name: str) -> Any:  # noqa: ANN401  a look, bound to its name
        def look(now: float) -> object:
            reading: Any = getattr(self._now, name) if self._now is not None else None
            if reading is None:
                raise FileNotFoundError(2, "the recording tells nothing of it")
            told, shown = self._shown.get(name, (None, None))
            if told is not reading:
                shown = replace(reading, at=now) if hasattr(reading, "at") else reading
                self._shown[name] = (reading, shown)
            return shown

        return look

    def _kernel(self, now: float) -> KernelReading:
        events, missed = tuple(self._events), self._missed
        self._events.clear()
        self._missed = 0
        why = "" if self._now is not None else "the recording is over"
        return KernelReading(at=now, events=events, missed=missed, why_blind=why)

    def _following(self) -> Look | None:
        """Return the next look; None at the end, and where the file is damaged."""
        try:
            return next(self._looks, None)
        except RecordingInvalid as error:
            log.warning("replay.ended", error=str(error))
            return None

    def _advance(self) -> None:
        """Take every look whose time has come; no kernel line of them is passed over."""
        now = self._clock.now()
        self._began = now if self._began is None else self._began
        while self._next is not None and self._next.snapshot.at - self._first_at <= now - self._began:
            self._now = self._next.snapshot
            if self._now.kernel is not None:
                self._events.extend(self._now.kernel.events)
                self._missed += self._now.kernel.missed
            self._next = self._following()
            self._last_at = now
        if self._next is None and self._now is not None and now - self._last_at > _OVER_S:
            self._now = None
