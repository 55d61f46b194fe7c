"""Levels into edges."""

import pytest

from gpuherd.edges import Edge, Fell, Rose


@pytest.mark.parametrize("looks", [1, 2, 1_000], ids=["one look long", "two looks long", "long"])
def test_an_outage_of_any_length_makes_two_edges(looks: int) -> None:
    edge = Edge()
    outage = [edge.step(ok=False, now=10.0 + i) for i in range(looks)]
    end = edge.step(ok=True, now=10.0 + looks)
    assert [step for step in outage if step is not None] == [Fell()]
    assert end == Rose(lasted_s=float(looks), tries=looks)


def test_a_good_start_is_silent() -> None:
    edge = Edge()
    assert edge.step(ok=True, now=0.0) is None
    assert edge.is_well


def test_a_bad_start_is_an_edge() -> None:
    edge = Edge()
    assert edge.step(ok=False, now=0.0) == Fell()
    assert not edge.is_well


def test_the_second_outage_counts_from_its_own_start() -> None:
    edge = Edge()
    edge.step(ok=False, now=0.0)
    edge.step(ok=True, now=5.0)
    assert edge.step(ok=False, now=100.0) == Fell()
    assert edge.step(ok=True, now=103.0) == Rose(lasted_s=3.0, tries=1)
