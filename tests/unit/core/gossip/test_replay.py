"""The replay window: each counter once, however packets overtake each other."""

from hypothesis import given
from hypothesis import strategies as st

from gpuherd.gossip import limits
from gpuherd.gossip.replay import Window


@given(st.lists(st.integers(1, 3_000), max_size=200))
def test_no_counter_is_taken_twice_and_none_of_the_window_is_lost(counters: list[int]) -> None:
    window, taken = Window(epoch=1), set()
    for counter in counters:
        is_known = counter in taken
        is_old = max(taken, default=0) - counter >= limits.REPLAY_WINDOW
        assert window.is_fresh(counter) is not (is_known or is_old)
        if window.is_fresh(counter):
            window.accept(counter)
            taken.add(counter)
