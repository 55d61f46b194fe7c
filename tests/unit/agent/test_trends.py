"""Counters and flags over minutes."""

import pytest
from tests.kit.readings import cycle, gpu, uuid

from gpuherd_agent.trends import Trends

ALL_ONES = 2**64 - 1


def rate_over(*counts: int | None, step_s: float = 10.0) -> float | None:
    """Return the corrected errors a second after these counts, ten seconds apart."""
    trends, rate = Trends(), None
    for look, count in enumerate(counts):
        told = trends.take(cycle(gpu(ecc_corrected_volatile_total=count)), look * step_s)
        rate = told[uuid(0)].corrected_per_s
    return rate


def test_a_counter_becomes_a_rate_once_its_window_was_watched() -> None:
    assert rate_over(*range(0, 20_000, 1_000)) is None
    assert rate_over(*range(0, 31_000, 1_000)) == pytest.approx(100.0)


def test_a_counter_that_goes_back_begins_anew() -> None:
    assert rate_over(*([5_000_000] * 15), *([0] * 16)) == 0.0


@pytest.mark.parametrize("broken", [ALL_ONES, 2**63, -1], ids=["all ones", "top bit", "negative"])
def test_a_count_that_cannot_be_true_is_left_out(broken: int) -> None:
    assert rate_over(*([0] * 15), broken, *([0] * 15)) == 0.0
