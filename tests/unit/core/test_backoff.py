"""Delays before the next try, and takeovers."""

import random

import pytest

from gpuherd.backoff import Limits, Takeovers, next_delay


class Highest(random.Random):
    """Draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


@pytest.mark.parametrize(
    ("attempt", "bound"),
    [(0, 10.0), (1, 20.0), (2, 40.0), (3, 60.0), (10_000, 60.0)],
    ids=["first", "second", "third", "capped", "after a year"],
)
def test_the_bound_doubles_up_to_the_cap(attempt: int, bound: float) -> None:
    assert next_delay(attempt, Limits(), Highest()) == bound


def test_delays_are_spread_over_the_whole_interval() -> None:
    rng = random.Random(3)  # noqa: S311
    delays = [next_delay(0, Limits(first_s=10.0), rng) for _ in range(1_000)]
    tenths = {int(delay) for delay in delays}
    assert tenths == set(range(10))


def test_the_third_takeover_within_a_minute_makes_us_stand_back() -> None:
    takeovers = Takeovers()
    assert [takeovers.step(now) for now in (0.0, 30.0, 59.9)] == [False, False, True]
    assert takeovers.total == 3


def test_takeovers_that_are_far_apart_are_chance() -> None:
    takeovers = Takeovers()
    assert not any(takeovers.step(now) for now in (0.0, 30.0, 60.0, 90.0, 120.0))
    assert takeovers.total == 5
