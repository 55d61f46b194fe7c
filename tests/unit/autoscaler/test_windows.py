"""Windows by cron and zone: over both changes of the clocks, and with every problem told by its key."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gpuherd_autoscaler.windows import Window, is_open, open_at, openings, window_problems

BERLIN = ZoneInfo("Europe/Berlin")


def night(start: str = "0 20 * * MON-FRI", duration_s: float = 36_000.0) -> Window:
    return Window(name="night", start=start, duration_s=duration_s, zone="Europe/Berlin")


def at(*when: int, fold: int = 0, zone: ZoneInfo = BERLIN) -> float:
    return datetime(*when, fold=fold, tzinfo=zone).timestamp()  # type: ignore[misc,arg-type]  # the parts of a date


@pytest.mark.parametrize(
    ("wall", "is_so"),
    [
        pytest.param(at(2026, 12, 1, 19, 59, 59), False, id="the second before"),
        pytest.param(at(2026, 12, 1, 20, 0), True, id="the instant itself"),
        pytest.param(at(2026, 12, 1, 20, 0, 1), True, id="just after"),
        pytest.param(at(2026, 12, 2, 5, 59, 59), True, id="after midnight"),
        pytest.param(at(2026, 12, 2, 6, 0), False, id="its end is outside"),
        pytest.param(at(2026, 12, 5, 5, 0), True, id="Friday's lasts into Saturday"),
        pytest.param(at(2026, 12, 5, 21, 0), False, id="Saturday has none"),
    ],
)
def test_a_window_is_open_from_its_start_for_its_length(wall: float, is_so: bool) -> None:
    assert is_open(night(), wall) is is_so


@pytest.mark.parametrize(
    ("wall", "is_so"),
    [
        pytest.param(at(2026, 3, 29, 1, 59), False, id="before the gap"),
        pytest.param(at(2026, 3, 29, 3, 0), True, id="a start inside the gap comes right after it"),
        pytest.param(at(2026, 3, 29, 3, 59, 59), True, id="for its whole length"),
        pytest.param(at(2026, 3, 29, 4, 0), False, id="and no longer"),
        pytest.param(at(2026, 10, 25, 2, 30), True, id="clocks go back: the first of two"),
        pytest.param(at(2026, 10, 25, 2, 31, fold=1), False, id="not again at the second"),
    ],
)
def test_a_start_that_is_lost_or_doubled_by_the_clocks_comes_once(wall: float, is_so: bool) -> None:
    assert is_open(night("30 2 * * *", 3_600.0), wall) is is_so


def test_the_length_is_real_time_when_the_clocks_change_within() -> None:
    found = openings(night("0 0 * * *", 6 * 3_600.0), at(2026, 10, 24, 12), 1)[0]
    assert found.end.timestamp() - found.start.timestamp() == 6 * 3_600.0
    assert (found.start.hour, found.end.hour) == (0, 5)


def test_the_next_five_openings_are_told_in_the_zone_of_the_window() -> None:
    starts = [o.start for o in openings(night(), at(2026, 12, 3, 21))]
    assert [(s.day, s.hour) for s in starts] == [(4, 20), (7, 20), (8, 20), (9, 20), (10, 20)]
    assert {str(s.tzinfo) for s in starts} == {"Europe/Berlin"}


def test_one_that_outlasts_its_next_start_stays_open() -> None:
    always = night("0 * * * *", 7_200.0)
    assert all(is_open(always, at(2026, 12, 1, hour, 30)) for hour in range(24))


def test_the_open_windows_are_named_in_order() -> None:
    windows = (
        Window(name="b", start="0 0 * * *", duration_s=86_400.0),
        Window(name="a", start="0 0 * * *", duration_s=86_400.0),
        Window(name="c", start="0 12 * * *", duration_s=60.0),
    )
    assert open_at(windows, at(2026, 12, 1, 1, 0)) == ("a", "b")


@pytest.mark.parametrize(
    ("window", "key"),
    [
        pytest.param(Window(name="A!", start="0 0 * * *", duration_s=1.0), "name", id="name"),
        pytest.param(Window(name="a", start="0 0 * * *", duration_s=0.0), "duration_s", id="no length"),
        pytest.param(Window(name="a", start="0 0 * * *", duration_s=1e9), "duration_s", id="over a week"),
        pytest.param(Window(name="a", start="0 0 * * *", duration_s=float("nan")), "duration_s", id="NaN"),
        pytest.param(Window(name="a", start="0 25 * * *", duration_s=1.0), "start", id="hour 25"),
        pytest.param(Window(name="a", start="@daily", duration_s=1.0), "start", id="no five fields"),
        pytest.param(Window(name="a", start="0 0 31 2 *", duration_s=1.0), "start", id="never comes"),
        pytest.param(
            Window(name="a", start="0 0 * * *", duration_s=1.0, zone="Mars/Base"), "zone", id="no such zone"
        ),
        pytest.param(
            Window(name="a", start="0 0 * * *", duration_s=1.0, zone="../etc/passwd"), "zone", id="a path"
        ),
    ],
)
def test_each_problem_is_told_with_its_key(window: Window, key: str) -> None:
    assert key in dict(window.problems())
    assert not dict(night().problems())


def test_names_given_twice_or_not_at_all_are_told() -> None:
    found = dict(window_problems((night(), night()), (("trigger[0].window", "day"),)))
    assert found["window[1].name"] == "'night' is the name of window[0] too"
    assert found["trigger[0].window"] == "'day' is no [[window]]; known: night"
