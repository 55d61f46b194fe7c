"""Asks every sensor beside the driver when it is due, and keeps its last word.

A look that may wait runs in a thread of its own, at most one a sensor: a file of the kernel that blocks costs
its sensor and no tick. The threads are daemons, so that the agent ends also while one of them hangs.
"""

import asyncio
import contextlib
import errno
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_agent.readings import KernelReading
from gpuherd_agent.sensor_state import SensorOutcome, SensorState
from gpuherd_agent.sensors.sense import Sense

MOMENT_S: Final = 0.02
"""How long a tick waits for looks that are under way: most are done by then, and read within their tick."""
_EARLY_S: Final = 0.25
"""A look is due this much early, at most a quarter of its period: ticks come a little off their second."""
_KEPT_PERIODS: Final = 3.0
"""The last reading of a late sensor counts for so many periods and its deadline."""
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})

log = logs.get("gpuherd.agent")


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a look ended: with a reading, or with why there is none."""

    reading: object | None
    error: Exception | None
    took_s: float


@dataclass(slots=True)
class _Watch:
    """One sensor over time."""

    sense: Sense
    state: SensorState
    due: float = float("-inf")
    begun: float = 0.0
    answer: asyncio.Future[_Ended] | None = None
    is_late: bool = False
    reading: object | None = None
    read_at: float = float("-inf")


class Rounds:
    """``begin`` before the probe is asked, ``gather`` after it: the two run beside each other."""

    def __init__(self, senses: Sequence[Sense], clock: Clock) -> None:
        self._clock = clock
        self._watches = [_Watch(sense=sense, state=_unseen(sense)) for sense in senses]

    @property
    def states(self) -> tuple[SensorState, ...]:
        """Return how each sensor stands."""
        return tuple(watch.state for watch in self._watches)

    def begin(self) -> None:
        """Start every look that is due and may wait; one that is still under way is never doubled."""
        now = self._clock.now()
        for watch in self._watches:
            if not watch.sense.is_quick and watch.answer is None and _is_due(watch, now):
                _next(watch, now)
                watch.answer = _in_thread(watch.sense, self._clock)

    async def gather(self) -> Mapping[str, object | None]:
        """Return the last reading of each sensor by its name; None = it has none now. Waits a moment."""
        under_way = [watch.answer for watch in self._watches if watch.answer is not None]
        if any(not answer.done() for answer in under_way):
            await asyncio.wait(under_way, timeout=MOMENT_S)
        now = self._clock.now()
        for watch in self._watches:
            if watch.sense.is_quick:
                if _is_due(watch, now):
                    _next(watch, now)
                    self._take(watch, _look(watch.sense, self._clock), now)
            elif watch.answer is not None:
                self._hear(watch, watch.answer, now)
        return {watch.sense.name: _kept(watch, now) for watch in self._watches}

    def _hear(self, watch: _Watch, answer: asyncio.Future[_Ended], now: float) -> None:
        under_way_s = now - watch.begun
        if answer.done():
            watch.answer, was_late, watch.is_late = None, watch.is_late, False
            if not was_late:  # what comes after its deadline tells of a time that is over
                self._take(watch, answer.result(), now)
        elif under_way_s > watch.sense.deadline_s:
            why = f"no answer for {under_way_s:.0f} s"
            self._say(watch, SensorOutcome.LATE, why, under_way_s, is_new=not watch.is_late)
            watch.is_late = True

    def _take(self, watch: _Watch, ended: _Ended, now: float) -> None:
        watch.reading, watch.read_at = ended.reading, now
        outcome, why = _outcome(ended)
        self._say(watch, outcome, why, ended.took_s)

    def _say(
        self, watch: _Watch, outcome: SensorOutcome, why: str, took_s: float, *, is_new: bool = True
    ) -> None:
        before, name = watch.state, watch.sense.name
        is_failure = outcome not in (SensorOutcome.OK, SensorOutcome.ABSENT)
        watch.state = SensorState(
            name=name,
            outcome=outcome,
            why=why,
            took_s=took_s,
            failures_total=before.failures_total + (is_failure and is_new),
        )
        if outcome is before.outcome:
            return
        if is_failure:
            log.warning("sensor.blind", sensor=name, outcome=outcome.value, error=why)
        elif before.outcome is not SensorOutcome.ABSENT:
            log.info("sensor.recovered", sensor=name, outcome=outcome.value)


def _unseen(sense: Sense) -> SensorState:
    return SensorState(name=sense.name, outcome=SensorOutcome.ABSENT, why="not looked at yet")


def _is_due(watch: _Watch, now: float) -> bool:
    return now >= watch.due - min(_EARLY_S, watch.sense.period_s / 4)


def _next(watch: _Watch, now: float) -> None:
    """Note that a look begins now; the next one is due a period later, whatever was missed."""
    watch.begun = now
    is_in_step = watch.due > now - watch.sense.period_s
    watch.due = (watch.due if is_in_step else now) + watch.sense.period_s


def _kept(watch: _Watch, now: float) -> object | None:
    sense = watch.sense
    age_max_s = _KEPT_PERIODS * sense.period_s + sense.deadline_s
    return watch.reading if now - watch.read_at <= age_max_s else None


def _outcome(ended: _Ended) -> tuple[SensorOutcome, str]:
    error = ended.error
    if error is None:
        why = ended.reading.why_blind if isinstance(ended.reading, KernelReading) else ""
        return (SensorOutcome.FAILED, why) if why else (SensorOutcome.OK, "")
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{error.strerror or error}"
        if error.errno in _ABSENT:
            return SensorOutcome.ABSENT, why
        return (SensorOutcome.DENIED if error.errno in _DENIED else SensorOutcome.FAILED), why
    return SensorOutcome.FAILED, f"{type(error).__name__}: {error}"


def _look(sense: Sense, clock: Clock) -> _Ended:
    """Make one look; whatever goes wrong in it stays with its sensor."""
    began = clock.now()
    try:
        reading, error = sense.look(began), None
    except Exception as raised:  # noqa: BLE001  the supervisor of sensors: a defect in one must not blind the others
        reading, error = None, raised
    return _Ended(reading, error, clock.now() - began)


def _in_thread(sense: Sense, clock: Clock) -> asyncio.Future[_Ended]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Ended] = loop.create_future()

    def work() -> None:
        ended = _look(sense, clock)
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(_settle, answer, ended)

    threading.Thread(target=work, name=f"sensor {sense.name}", daemon=True).start()
    return answer


def _settle(answer: asyncio.Future[_Ended], ended: _Ended) -> None:
    if not answer.done():
        answer.set_result(ended)
