"""FROZEN and settling: what starts them, what they forbid, and what ends them."""

from dataclasses import replace

import pytest
from tests.kit.fleets import Scaler, gpus, limits, pool, serving, sick, silent, standby

from gpuherd.phases import Lifecycle
from gpuherd_autoscaler.racks import Rack
from gpuherd_autoscaler.snapshot import Freshness, NodeView

LONG_S = 700.0


def rest(*numbers: int) -> list[NodeView]:
    return [standby(f"n-{i}") for i in numbers]


def aged() -> Scaler:
    """Return a scaler before whose eyes n-1 has been idle for long, in a pool of ten."""
    scaler = Scaler(bounds=limits(pool(10)))
    assert scaler.look_for(LONG_S, [serving("n-1"), *rest(*range(2, 11))]).release == ("n-1",)
    return scaler


@pytest.mark.parametrize(
    ("others", "why"),
    [
        pytest.param(
            [*rest(2, 3, 4, 5), *(silent(f"n-{i}") for i in range(6, 11))],
            "only 5 of 10 expected nodes are in sight",
            id="half of them unseen",
        ),
        pytest.param(
            [*rest(*range(2, 8)), *(sick(f"n-{i}") for i in (8, 9, 10))],
            "3 of 10 nodes turned bad within 60 s",
            id="three of ten turned bad",
        ),
        pytest.param(
            [*rest(*range(2, 9)), sick("n-9", serve=False), sick("n-10", serve=False)],
            "",
            id="two of ten turned bad",
        ),
        pytest.param(
            [*rest(*range(2, 7)), *(silent(f"n-{i}", known=False) for i in range(7, 11))], "", id="missing"
        ),
    ],
)
def test_what_freezes(others: list[NodeView], why: str) -> None:
    plan = aged().look([serving("n-1"), *others])
    assert why in plan.frozen
    assert bool(plan.frozen) == bool(why)
    assert plan.release == (() if why else ("n-1",))


def test_frozen_never_forbids_what_fresh_demand_asks_for() -> None:
    scaler = aged()
    nodes = [serving("n-1", free=0.0), *rest(2, 3, 4), *(silent(f"n-{i}") for i in range(5, 11))]
    plan = scaler.look_for(5, nodes, [gpus(1, 9)])
    assert plan.frozen
    assert plan.serve == ("n-2", "n-3")


def test_frozen_replaces_no_lost_node_for_the_minimum() -> None:
    scaler = Scaler(bounds=limits(pool(4, min=3)))
    scaler.look_for(100, [*(serving(f"n-{i}") for i in (1, 2, 3)), *rest(4)])
    plan = scaler.look([serving("n-1"), silent("n-2", serve=True), silent("n-3", serve=True), *rest(4)])
    assert (bool(plan.frozen), plan.serve) == (True, ())


def test_frozen_ends_after_sixty_seconds_of_the_contrary() -> None:
    scaler, nodes = aged(), [serving("n-1"), *rest(*range(2, 11))]
    scaler.look(nodes, freshness=Freshness.FAILED)
    plan = scaler.look(nodes)
    assert plan.frozen == "frozen: Ray's head tells nothing of the present; sound for 0 of 60 s"
    scaler.look_for(50, nodes)
    scaler.look(nodes, freshness=Freshness.FAILED)
    assert scaler.look_for(55, nodes).frozen
    assert scaler.look_for(5, nodes).frozen == ""


def test_nodes_that_were_bad_when_we_started_did_not_turn_bad() -> None:
    nodes = [*rest(1, 2), *(sick(f"n-{i}", serve=False) for i in (3, 4, 5))]
    assert Scaler(bounds=limits(pool(5))).look(nodes).frozen == ""


def test_a_pair_of_nodes_is_not_frozen_by_sight() -> None:
    scaler = Scaler(bounds=limits(pool(2)))
    assert scaler.look([serving("n-1"), silent("n-2")]).frozen == ""


def test_a_night_of_scale_down_does_not_freeze_the_morning() -> None:
    scaler = Scaler(bounds=limits(pool(10)))
    scaler.look_for(100, [serving(f"n-{i}") for i in range(1, 11)])
    plan = scaler.look([serving("n-1"), *rest(*range(2, 11))])
    assert plan.frozen == ""


def test_a_new_session_of_the_head_settles_until_nine_tenths_are_back() -> None:
    scaler = Scaler(bounds=limits(pool(10)))
    everyone = [serving(f"n-{i}") for i in range(1, 11)]
    assert scaler.look_for(LONG_S, everyone).release
    joining = [replace(n, ray=None, lifecycle=Lifecycle.JOINING) for n in everyone]
    plan = scaler.look([*everyone[:8], *joining[8:]], session="other")
    assert "settling" in plan.frozen
    assert plan.release == ()
    assert scaler.look([*everyone[:9], *joining[9:]], session="other").frozen == ""


def test_settling_ends_after_three_minutes() -> None:
    scaler = Scaler(bounds=limits(pool(10, min=10)))
    everyone = [serving(f"n-{i}") for i in range(1, 11)]
    scaler.look_for(100, everyone)
    apart = [replace(n, ray=None, lifecycle=Lifecycle.JOINING) for n in everyone[:5]] + everyone[5:]
    assert "settling" in scaler.look_for(175, apart, session="other").frozen
    assert "settling" not in scaler.look_for(10, apart, session="other").frozen


def test_a_restarted_head_that_tells_of_no_demand_lowers_nothing() -> None:
    scaler = Scaler(bounds=limits(pool(4, max=4)))
    busy = [serving(f"n-{i}", free=0.0) for i in (1, 2, 3)]
    scaler.look_for(LONG_S, busy, [gpus(1, 5)])
    empty = [replace(n, ray=None, lifecycle=Lifecycle.JOINING) for n in busy]
    assert scaler.look_for(100, empty, session="other").release == ()


def test_a_whole_rack_that_turns_bad_freezes_however_large_the_fleet_is() -> None:
    """Two of thirty are fewer than a fifth; a fault that they share may be ours to make worse."""
    rack = Rack(name="r1", nodes=("n-[1-2]",))
    scaler = Scaler(bounds=replace(limits(pool(30)), racks=(rack,)))
    well = [standby(f"n-{i}") for i in range(1, 31)]
    assert scaler.look_for(10.0, well).frozen == ""
    assert scaler.look([sick("n-1"), *well[1:]]).frozen == ""
    assert "all 2 nodes of rack r1 turned bad" in scaler.look([sick("n-1"), sick("n-2"), *well[2:]]).frozen
