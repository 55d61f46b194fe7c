"""The formulas of the limits at the sizes that people run."""

import pytest

from gpuherd.gossip import limits


@pytest.mark.parametrize(
    ("expected", "voices"),
    [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (8, 4), (9, 5), (10, 5), (1_000, 5)],
)
def test_a_verdict_takes_half_of_the_others_and_at_most_five(expected: int, voices: int) -> None:
    assert limits.quorum(expected) == voices


@pytest.mark.parametrize("expected", [2, 4, 6, 8, 10, 12, 100, 128])
def test_half_of_an_even_fleet_is_a_minority(expected: int) -> None:
    assert limits.roll_needs(expected) > expected // 2


def test_failed_waits_eight_seconds_and_longer_from_a_hundred_nodes_on() -> None:
    assert limits.fail_after_s(3) == limits.fail_after_s(100) == 8.0
    assert limits.fail_after_s(1_000) == pytest.approx(12.0)
