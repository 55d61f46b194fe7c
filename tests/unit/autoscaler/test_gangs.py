"""Placement groups as transactions, groups that small requests would starve, and requested room."""

import pytest
from tests.kit.fleets import Scaler, booting, gang, gpus, limits, pool, serving, standby

from gpuherd.ray import Gang, Strategy
from gpuherd.shell.gcs_reading import read_strategy
from gpuherd_autoscaler.packing import Bin, pack
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import NodeView

PACK, SPREAD = Strategy.PACK, Strategy.SPREAD
STRICT_PACK, STRICT_SPREAD = Strategy.STRICT_PACK, Strategy.STRICT_SPREAD


def rules(plan: Plan) -> set[str]:
    return {refusal.rule for refusal in plan.refusals}


def fresh(count: int) -> list[Bin]:
    return [Bin(name=f"n-{i}", free={"GPU": 8.0}, group="a", opens=True) for i in range(count)]


@pytest.mark.parametrize(
    ("group", "room", "opened"),
    [
        pytest.param(gang(PACK, gpus(4, 4)), 3, 2, id="packed on as few as hold it"),
        pytest.param(gang(STRICT_SPREAD, gpus(1, 3)), 3, 3, id="one node a bundle"),
        pytest.param(gang(STRICT_SPREAD, gpus(1, 2), gpus(2, 1)), 3, 3, id="also among unlike bundles"),
        pytest.param(gang(STRICT_SPREAD, gpus(1, 4)), 3, 0, id="none when one bundle has no node"),
        pytest.param(gang(STRICT_PACK, gpus(2, 4)), 3, 1, id="all on one node"),
        pytest.param(gang(STRICT_PACK, gpus(8, 2)), 3, 0, id="none when no node holds all"),
        pytest.param(gang(SPREAD, gpus(8, 2)), 1, 0, id="none when room is short"),
    ],
)
def test_a_group_is_placed_as_a_whole_or_not_at_all(group: Gang, room: int, opened: int) -> None:
    packing = pack((), fresh(4), room={"a": room}, gangs=(group,))
    assert len(packing.placed) == opened
    assert packing.left_gangs == (() if opened else (group,))


def test_a_group_that_fails_leaves_all_room_to_others() -> None:
    groups = (gang(STRICT_SPREAD, gpus(1, 4)), gang(PACK, gpus(8, 2)))
    packing = pack((gpus(8, 1),), fresh(4), room={"a": 3}, gangs=groups)
    assert packing.left_gangs == groups[:1]
    assert (len(packing.placed), packing.left) == (3, ())


@pytest.mark.parametrize(
    ("details", "strategy"),
    [
        ("a103:STRICT_SPREAD|PENDING", STRICT_SPREAD),
        ("a103:STRICT_PACK|RESCHEDULING", STRICT_PACK),
        ("a103:SPREAD|PENDING", SPREAD),
        ("", PACK),
        ("a103:SOMETHING_NEW|PENDING", PACK),
    ],
)
def test_the_strategy_is_read_from_rays_words(details: str, strategy: Strategy) -> None:
    assert read_strategy(details) is strategy


def test_a_group_counts_at_its_first_poll() -> None:
    nodes = [serving("n-1", free=0.0), standby("n-2"), standby("n-3"), standby("n-4")]
    plan = Scaler().look(nodes, gangs=[gang(STRICT_SPREAD, gpus(8, 2))])
    assert plan.serve == ("n-2", "n-3")


def test_no_node_starts_for_a_group_that_max_forbids() -> None:
    nodes = [serving("n-1", free=0.0), serving("n-2", free=0.0), standby("n-3"), standby("n-4")]
    scaler = Scaler(bounds=limits(pool(4, max=3)))
    plan = scaler.look_for(30, nodes, gangs=[gang(STRICT_SPREAD, gpus(8, 2))])
    assert (plan.serve, rules(plan)) == ((), {"gang"})
    assert "each on its own node" in plan.refusals[0].text


def test_nodes_on_their_way_for_a_group_are_not_asked_twice() -> None:
    nodes = [booting("n-1"), booting("n-2"), standby("n-3"), standby("n-4")]
    assert Scaler().look_for(30, nodes, gangs=[gang(STRICT_SPREAD, gpus(8, 2))]).is_silent


def test_contended_gang_is_reported_not_chased() -> None:
    nodes = [serving("n-1", free=0.0), standby("n-2"), standby("n-3"), standby("n-4")]
    scaler = Scaler(bounds=limits(pool(4, max=3)))
    plan = scaler.look_for(30, nodes, [gpus(1, 9)], gangs=[gang(STRICT_SPREAD, gpus(8, 2))])
    assert "contended" in rules(plan)
    assert plan.reasons == {"n-2": "for pending 8 x {GPU: 1}", "n-3": "for pending 1 x {GPU: 1}"}


def test_a_group_and_small_requests_that_both_find_room_are_both_served() -> None:
    nodes = [serving("n-1", free=0.0), standby("n-2"), standby("n-3"), standby("n-4")]
    plan = Scaler().look_for(30, nodes, [gpus(1, 8)], gangs=[gang(STRICT_SPREAD, gpus(8, 2))])
    assert (plan.serve, rules(plan)) == (("n-2", "n-3", "n-4"), set())


def test_a_group_that_must_lie_on_one_node_and_fits_none_is_infeasible() -> None:
    plan = Scaler().look_for(30, [standby("n-1")], gangs=[gang(STRICT_PACK, gpus(8, 2))])
    assert (plan.serve, plan.infeasible) == ((), (gpus(16),))


@pytest.mark.parametrize(
    ("nodes", "serve"),
    [
        pytest.param([serving("n-1", free=0.0), standby("n-2")], (), id="a busy node counts as room"),
        pytest.param([booting("n-1"), standby("n-2")], (), id="so does a booting one"),
        pytest.param([standby("n-1"), standby("n-2")], ("n-1",), id="a node is started for it"),
    ],
)
def test_requested_room_is_there_busy_or_not(nodes: list[NodeView], serve: tuple[str, ...]) -> None:
    assert Scaler().look(nodes, requested=[gpus(1, 8)]).serve == serve


def test_requested_room_is_not_released_and_goes_when_it_is_asked_for_no_longer() -> None:
    scaler, nodes = Scaler(bounds=limits(pool(2, idle_timeout_s=20.0))), [serving("n-1"), serving("n-2")]
    plan = scaler.look_for(300, nodes, requested=[gpus(8, 1)])
    assert plan.release == ("n-2",)
    assert plan.kept["n-1"] == "idle, and request_resources() asks for its room"
    assert scaler.look_for(30, nodes[:1]).release == ("n-1",)
