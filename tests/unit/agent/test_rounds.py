"""Rounds of sensors: each at its pace, none waited for, none hiding another."""

import asyncio
import errno
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.kit.hand_clock import HandClock

from gpuherd_agent.sensor_state import SensorOutcome
from gpuherd_agent.sensors.rounds import Rounds
from gpuherd_agent.sensors.sense import Sense


@dataclass(slots=True)
class Place:
    """Something to look at, and how often it was."""

    looks: list[float] = field(default_factory=list)
    error: Exception | None = None
    gate: threading.Event | None = None

    def look(self, now: float) -> object:
        self.looks.append(now)
        if self.gate is not None:
            self.gate.wait()
        if self.error is not None:
            raise self.error
        return f"seen at {now:g}"


async def tick(rounds: Rounds) -> Mapping[str, object | None]:
    rounds.begin()
    return await rounds.gather()


async def settled(rounds: Rounds, name: str) -> Mapping[str, object | None]:
    """Gather until the thread of this sensor has come back."""
    while True:
        read = await rounds.gather()
        if read[name] is not None:
            return read
        await asyncio.sleep(0)


async def test_each_sensor_is_asked_at_its_own_pace() -> None:
    clock, fast, slow = HandClock(), Place(), Place()
    rounds = Rounds(
        (
            Sense(name="fast", look=fast.look, period_s=1.0, is_quick=True),
            Sense(name="slow", look=slow.look, period_s=10.0, is_quick=True),
        ),
        clock,
    )
    for second in range(21):
        clock.at = 100.0 + second + 0.01 * (second % 2)  # ticks come a little late now and then
        read = await tick(rounds)
    assert len(fast.looks) == 21
    assert slow.looks == [100.0, 110.0, 120.0]
    assert read == {"fast": "seen at 120", "slow": "seen at 120"}


async def test_sooner_ticks_ask_nobody_more_often_than_its_pace() -> None:
    clock, place = HandClock(), Place()
    rounds = Rounds((Sense(name="host", look=place.look, period_s=1.0, is_quick=True),), clock)
    for quarter in range(9):
        clock.at = 100.0 + quarter * 0.25
        await tick(rounds)
    assert place.looks == [100.0, 100.75, 101.75]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/sys/x"), SensorOutcome.ABSENT),
        (PermissionError(errno.EPERM, "Operation not permitted", "/dev/x"), SensorOutcome.DENIED),
        (OSError(errno.EIO, "Input/output error", "/sys/x"), SensorOutcome.FAILED),
        (ValueError("not a number"), SensorOutcome.FAILED),
        (ZeroDivisionError("a defect"), SensorOutcome.FAILED),
    ],
)
async def test_one_that_fails_says_how_and_hides_no_other(error: Exception, outcome: SensorOutcome) -> None:
    bad, good = Place(error=error), Place()
    rounds = Rounds(
        (
            Sense(name="bad", look=bad.look, period_s=0.0, is_quick=True),
            Sense(name="good", look=good.look, period_s=0.0, is_quick=True),
        ),
        HandClock(),
    )
    assert await tick(rounds) == {"bad": None, "good": "seen at 100"}
    assert [state.outcome for state in rounds.states] == [outcome, SensorOutcome.OK]
    assert str(error.args[-1]).split("/")[-1] in rounds.states[0].why
    bad.error = None
    assert (await tick(rounds))["bad"] == "seen at 100"
    assert rounds.states[0].outcome is SensorOutcome.OK
    assert rounds.states[0].failures_total == (outcome is not SensorOutcome.ABSENT)


async def test_one_that_hangs_costs_no_tick_and_is_never_doubled() -> None:
    clock, good = HandClock(), Place()
    hung = Place(gate=threading.Event())
    rounds = Rounds(
        (
            Sense(name="hung", look=hung.look, period_s=1.0, deadline_s=5.0),
            Sense(name="good", look=good.look, period_s=1.0, is_quick=True),
        ),
        clock,
    )
    assert hung.gate is not None
    try:
        for second in range(30):
            clock.at = 100.0 + second
            assert (await tick(rounds))["good"] == f"seen at {clock.at:g}"
        assert len(hung.looks) == 1
        state = rounds.states[0]
        assert (state.outcome, state.failures_total) == (SensorOutcome.LATE, 1)
        assert state.why == "no answer for 29 s"
    finally:
        hung.gate.set()


async def test_what_comes_after_its_deadline_is_dropped_and_the_next_look_counts() -> None:
    clock, place = HandClock(), Place(gate=threading.Event())
    assert place.gate is not None
    rounds = Rounds((Sense(name="host", look=place.look, period_s=1.0, deadline_s=5.0),), clock)
    await tick(rounds)
    clock.at = 106.0
    await tick(rounds)
    place.gate.set()
    clock.at = 107.0
    seen: set[object] = set()
    while "seen at 107" not in seen:  # the late answer arrives, and only then a new look begins
        seen.add((await tick(rounds))["host"])
    assert seen == {None, "seen at 107"}
    assert rounds.states[0].outcome is SensorOutcome.OK


async def test_the_last_reading_of_a_late_sensor_counts_for_a_while_only() -> None:
    clock, place = HandClock(), Place()
    rounds = Rounds((Sense(name="host", look=place.look, period_s=1.0, deadline_s=5.0),), clock)
    rounds.begin()
    await settled(rounds, "host")
    place.gate = threading.Event()
    try:
        clock.at = 101.0
        await tick(rounds)
        clock.at = 108.0
        assert (await tick(rounds))["host"] == "seen at 100"
        clock.at = 108.1
        assert (await tick(rounds))["host"] is None
    finally:
        place.gate.set()
