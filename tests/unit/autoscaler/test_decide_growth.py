"""Growth: demand, minimum, spares, replacement, and what refuses them."""

from dataclasses import replace

import pytest
from tests.kit.fleets import (
    Scaler,
    booting,
    followed,
    gpus,
    hold,
    limits,
    picture,
    pool,
    ray_node,
    serving,
    sick,
    silent,
    standby,
)

from gpuherd.health import Action, Severity
from gpuherd.names import NodeName, PoolName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import RayNode, RayStatus, Shape
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.snapshot import Freshness, NodeView


def rules(plan: Plan) -> set[str]:
    return {refusal.rule for refusal in plan.refusals}


def test_the_first_node_comes_at_once_and_the_others_when_demand_lasts() -> None:
    scaler, nodes = Scaler(), [standby(f"n-{i}") for i in (1, 2, 3)]
    first = scaler.look(nodes, [gpus(1, 14)])
    assert (first.serve, rules(first)) == (("n-1",), {"first_poll"})
    nodes = [booting("n-1"), *nodes[1:]]
    second = scaler.look(nodes, [gpus(1, 14)])
    assert second.serve == ("n-2",)
    assert second.reasons == {"n-2": "for pending 6 x {GPU: 1}"}


def test_demand_of_a_single_poll_starts_nothing_more() -> None:
    scaler, nodes = Scaler(), [serving("n-1", free=0.0), standby("n-2")]
    assert scaler.look(nodes, [gpus(1)]).is_silent
    assert scaler.look(nodes).is_silent
    assert scaler.look(nodes, [gpus(1)]).is_silent


def test_two_looks_at_one_reading_of_the_head_are_one_poll() -> None:
    scaler, nodes = Scaler(), [serving("n-1", free=0.0), standby("n-2")]
    for _ in range(3):
        snapshot = picture(nodes, [gpus(1)], at=0.0)
        plan, scaler.memory = scaler_decide(scaler, snapshot)
        assert plan.is_silent


def scaler_decide(scaler: Scaler, snapshot):  # noqa: ANN001, ANN201
    from gpuherd_autoscaler.decide import decide  # noqa: PLC0415

    return decide(snapshot, scaler.memory, scaler.bounds, scaler.now)


@pytest.mark.parametrize(
    ("nodes", "count", "serve"),
    [
        pytest.param([serving("n-1", free=4.0), standby("n-2")], 4, (), id="free capacity is used first"),
        pytest.param([serving("n-1", free=4.0), standby("n-2")], 5, ("n-2",), id="beyond it a node"),
        pytest.param([booting("n-1"), standby("n-2")], 8, (), id="a booting node counts as there"),
        pytest.param([booting("n-1"), standby("n-2")], 9, ("n-2",), id="beyond that a node"),
        pytest.param(
            [serving("n-1", free=0.0), serving("n-2", serve=False), standby("n-3")],
            8,
            ("n-2",),
            id="unchosen first",
        ),
        pytest.param(
            [
                serving("n-1", free=0.0),
                serving("n-2", serve=False, phase=Phase.DRAINING, lifecycle=Lifecycle.DRAINING),
                standby("n-3"),
            ],
            8,
            ("n-3",),
            id="a draining node offers nothing",
        ),
        pytest.param(
            [serving("n-1", free=0.0), sick("n-2"), standby("n-3")], 8, ("n-3",), id="nor does a sick one"
        ),
        pytest.param(
            [serving("n-1", free=0.0), booting("n-2", gpus_usable=4), standby("n-3")],
            5,
            ("n-3",),
            id="a booting node offers its good GPUs only",
        ),
        pytest.param(
            [serving("n-1", wants_drain="hot", free=8.0), standby("n-2")],
            1,
            ("n-2",),
            id="nor one that wants out",
        ),
    ],
)
def test_lasting_demand_is_met_by_what_is_there_before_a_node_is_asked(
    nodes: list[NodeView], count: int, serve: tuple[str, ...]
) -> None:
    assert Scaler().look_for(5, nodes, [gpus(1, count)]).serve == serve


def test_the_head_and_strangers_count_with_what_they_have_free() -> None:
    head = RayNode(id=RayNodeId("h"), name=None, status=RayStatus.IDLE, available={"GPU": 4.0})
    scaler, nodes = Scaler(), {n.name: n for n in [serving("n-1", free=0.0), standby("n-2")]}
    for at in (0.0, 5.0):
        seen = picture(nodes.values(), [gpus(1, 4)], at=at)
        sight = seen.cluster.value
        assert sight is not None
        with_head = replace(sight, nodes=(*sight.nodes, head))
        plan, scaler.memory = scaler_decide(
            scaler, replace(seen, cluster=replace(seen.cluster, value=with_head))
        )
        assert plan.is_silent


@pytest.mark.parametrize(
    "unfit",
    [
        pytest.param({"holds": (hold("user:bob"),)}, id="held by a person"),
        pytest.param({"holds": (hold("health"),)}, id="held by health"),
        pytest.param({"action": Action.CORDON}, id="verdict asks for a cordon"),
        pytest.param({"severity": Severity.UNKNOWN}, id="unknown is not ok"),
        pytest.param({"severity": Severity.CRITICAL}, id="critical, if only observed"),
        pytest.param({"online": False}, id="offline"),
        pytest.param({"online": None}, id="presence not known"),
        pytest.param({"age_s": 31.0}, id="stale state"),
        pytest.param({"age_s": None}, id="retained state only"),
        pytest.param({"gpus_usable": 0}, id="no usable GPU"),
        pytest.param({"lifecycle": Lifecycle.MISSING, "age_s": None, "known": False}, id="missing"),
    ],
)
def test_only_sound_present_nodes_are_candidates(unfit: dict[str, object]) -> None:
    plan = Scaler().look_for(5, [standby("n-1", **unfit), standby("n-2")], [gpus(1, 16)])
    assert plan.serve == ("n-2",)
    assert plan.kept["n-1"]
    assert rules(plan) == {"candidates"}


def test_the_scalers_own_hold_does_not_bar_a_node() -> None:
    assert Scaler().look([standby("n-1", holds=(hold("scaler"),))], [gpus(1)]).serve == ("n-1",)


def test_sound_candidates_come_before_warned_ones_then_by_name() -> None:
    nodes = [standby("n-1", severity=Severity.WARN), standby("n-3"), standby("n-2")]
    scaler = Scaler(bounds=limits(pool(3, min=2)))
    assert scaler.look(nodes).serve == ("n-2", "n-3")
    assert Scaler().look_for(5, nodes, [gpus(1, 16)]).serve == ("n-2", "n-3")


def test_max_bounds_growth_and_is_told() -> None:
    scaler = Scaler(bounds=limits(pool(4, max=1)))
    plan = scaler.look_for(5, [standby("n-1"), standby("n-2")], [gpus(1, 20)])
    assert plan.serve == ("n-1",)
    refusal = next(r for r in plan.refusals if r.rule == "max")
    assert (refusal.figure, refusal.pool) == (12.0, "a")
    assert refusal.text == "12 x {GPU: 1} waits: a is at its max of 1"


def test_a_request_no_pool_could_take_is_told_once_and_starts_nothing() -> None:
    plan = Scaler().look_for(5, [standby("n-1")], [gpus(16, 5), gpus(16, 2)])
    assert plan.is_silent
    assert plan.infeasible == (gpus(16, 7),)


def test_cpu_demand_starts_no_gpu_node() -> None:
    plan = Scaler().look_for(5, [standby("n-1")], [gpus(0, 50, CPU=1.0)])
    assert plan.is_silent
    assert "no_gpu_asked" in rules(plan)


def test_cpu_demand_starts_a_host_without_gpus() -> None:
    plain = Pool(name=PoolName("cpu"), nodes=("c-1",), min=0, max=1, cpus_per_node=16.0)
    host = standby("c-1", pool=PoolName("cpu"), gpus_usable=None)
    plan = Scaler(bounds=limits(pool(1), plain)).look_for(5, [standby("n-1"), host], [gpus(0, 5, CPU=1.0)])
    assert plan.serve == ("c-1",)


def test_min_is_filled_without_demand_and_without_the_head() -> None:
    scaler = Scaler(bounds=limits(pool(3, min=2)))
    plan = scaler.look([standby(f"n-{i}") for i in (1, 2, 3)], freshness=Freshness.FAILED)
    assert plan.serve == ("n-1", "n-2")
    assert plan.frozen


def test_a_sick_node_is_replaced_when_min_needs_it() -> None:
    scaler = Scaler(bounds=limits(pool(3, min=2, max=2)))
    plan = scaler.look([serving("n-1"), sick("n-2"), standby("n-3")])
    assert plan.serve == ("n-3",)
    assert [(r.node, r.by) for r in plan.replace] == [("n-2", "n-3")]
    assert plan.kept["n-2"].startswith("outside, held by health: gpu lost")


def test_a_sick_node_is_replaced_when_demand_needs_it_and_not_otherwise() -> None:
    nodes = [serving("n-1", free=0.0), sick("n-2"), standby("n-3")]
    assert Scaler().look_for(5, nodes).is_silent
    assert Scaler().look_for(5, nodes, [gpus(1)]).serve == ("n-3",)


def test_held_by_health_is_an_answer_however_long_it_lasts() -> None:
    plan = Scaler().look_for(300, [sick("n-1")])
    assert "outside, held by health" in (plan.kept | plan.reasons)["n-1"]


def test_a_node_that_does_not_join_in_time_is_no_longer_counted_on() -> None:
    scaler, nodes = Scaler(), [booting("n-1"), standby("n-2")]
    assert scaler.look_for(170, nodes, [gpus(1)]).is_silent
    plan = scaler.look_for(10, nodes, [gpus(1)])
    assert plan.serve == ("n-2",)
    assert "asked to serve for" in plan.kept["n-1"]


def test_a_lost_node_is_replaced_and_one_that_ray_lists_is_not() -> None:
    scaler = Scaler(bounds=limits(pool(3, min=2)))
    lost = silent("n-2", serve=True, phase=Phase.MEMBER)
    scaler.look_for(90, [serving("n-1"), serving("n-2"), standby("n-3")])
    in_ray = replace(lost, lifecycle=Lifecycle.UNREACHABLE, ray=ray_node("n-2"))
    assert scaler.look_for(5, [serving("n-1"), in_ray, standby("n-3")]).is_silent
    assert scaler.look([serving("n-1"), lost, standby("n-3")]).serve == ("n-3",)


def test_a_silent_node_is_not_replaced_while_the_head_tells_nothing() -> None:
    scaler = Scaler(bounds=limits(pool(3, min=2)))
    scaler.look_for(90, [serving("n-1"), serving("n-2"), standby("n-3")])
    lost = silent("n-2", serve=True, lifecycle=Lifecycle.UNREACHABLE)
    assert scaler.look([serving("n-1"), lost, standby("n-3")], freshness=Freshness.STALE).is_silent


def test_warm_spares_are_kept_beyond_demand_and_within_max() -> None:
    scaler = Scaler(bounds=limits(pool(3, warm_spares=1)))
    nodes = [serving("n-1", free=0.0), standby("n-2"), standby("n-3")]
    for _ in range(14):  # the guard of the first looks has to pass
        plan = scaler.look(nodes)
    assert plan.serve == ("n-2",)
    assert scaler.look(followed(nodes, plan)).is_silent


def test_a_released_node_with_new_work_is_asked_again() -> None:
    plan = Scaler().look([serving("n-1", serve=False, free=7.0)])
    assert plan.reasons == {"n-1": "work came back before it drained"}


def test_two_pools_grow_for_their_own_resources() -> None:
    other = Pool(name=PoolName("b"), nodes=("b-1",), min=0, max=1, gpus_per_node=8, resources={"a100": 8.0})
    b_node = standby("b-1", pool=PoolName("b"))
    scaler = Scaler(bounds=limits(pool(1), other))
    shape = Shape(resources=(("GPU", 1.0), ("a100", 1.0)))
    assert scaler.look_for(5, [standby("n-1"), b_node], [shape]).serve == ("b-1",)
    assert NodeName("n-1") not in scaler.look([standby("n-1"), b_node], [shape]).serve
