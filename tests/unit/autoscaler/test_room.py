"""How many nodes may start: the bounds of a pool and of the whole herd, each named with its figure."""

from dataclasses import replace

import pytest
from tests.kit.fleets import POOL, Scaler, booting, gang, gpus, pool, serving, standby

from gpuherd.errors import ConfigInvalid
from gpuherd.names import NodeName, PoolName
from gpuherd.ray import Strategy
from gpuherd.settings import parse
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.quota import Quota
from gpuherd_autoscaler.settings import ScalerSettings
from gpuherd_autoscaler.snapshot import NodeView

OTHER = PoolName("b")


def scaler(*pools: Pool, quota: Quota | None = None) -> Scaler:
    return Scaler(bounds=Limits(pools=pools, quota=quota or Quota()))


def rest(count: int) -> list[NodeView]:
    return [standby(f"n-{i}") for i in range(1, count + 1)]


def of_other(node: NodeView) -> NodeView:
    return replace(node, pool=OTHER, name=NodeName(node.name.replace("n", "m")))


def other(size: int = 4, **given: object) -> Pool:
    return replace(pool(size, **given), name=OTHER, nodes=(f"m-[1-{size}]",))


def refused(plan: Plan) -> dict[str, float]:
    return {r.rule: r.figure for r in plan.refusals}


def test_no_more_nodes_start_at_once_than_the_pool_allows() -> None:
    made = scaler(pool(6, starting_max=2))
    plan = made.look_for(10.0, rest(6), [gpus(8.0, 6)])
    assert plan.serve == ("n-1", "n-2")
    assert refused(plan)["starting_max"] == 4.0
    on_the_way = [booting("n-1"), booting("n-2"), *rest(6)[2:]]
    plan = made.look(on_the_way, [gpus(8.0, 6)])
    assert plan.serve == ()
    assert any("a is at its 2 nodes that may be starting at once" in r.text for r in plan.refusals)
    plan = made.look([serving("n-1", free=0.0), *on_the_way[1:]], [gpus(8.0, 5)])
    assert plan.serve == ("n-3",)


def test_no_more_nodes_start_within_a_minute_than_the_pool_allows() -> None:
    made = scaler(pool(6, starts_per_minute=2))
    nodes = rest(6)
    started: list[float] = []
    for _ in range(40):
        at = made.now
        plan = made.look(nodes, [gpus(8.0, 6 - len(started))] if len(started) < 6 else [])
        started += [at] * len(plan.serve)
        nodes = [serving(n.name, free=0.0) if n.name in plan.serve else n for n in nodes]
    assert len(started) == 6
    assert all(later - at >= 60.0 for at, later in zip(started, started[2:], strict=False))


def test_a_released_node_costs_no_start() -> None:
    made = scaler(pool(4, starting_max=1))
    nodes = [serving("n-1", serve=False), serving("n-2", serve=False), *rest(4)[2:]]
    plan = made.look_for(10.0, nodes, [gpus(8.0, 4)])
    assert plan.serve == ("n-1", "n-2", "n-3")


def test_a_group_that_may_not_start_at_once_is_told_and_starts_nothing() -> None:
    made = scaler(pool(4, starting_max=2))
    three = gang(Strategy.STRICT_SPREAD, gpus(8.0, 3))
    plan = made.look_for(10.0, rest(4), gangs=[three])
    assert plan.serve == ()
    (text,) = [r.text for r in plan.refusals if r.rule == "gang"]
    assert "a may start 2 up to its 2 nodes that may be starting at once" in text


@pytest.mark.parametrize(("quota", "rule"), [(Quota(nodes=3), "quota_nodes"), (Quota(gpus=31), "quota_gpus")])
def test_all_pools_together_stay_within_the_quota(quota: Quota, rule: str) -> None:
    made = scaler(pool(4), other(), quota=quota)
    nodes = [*rest(4), *(of_other(n) for n in rest(4))]
    plan = made.look_for(10.0, nodes, [gpus(8.0, 8)])
    assert len(plan.serve) == 3
    assert refused(plan)[rule] == 5.0


def test_minimum_and_spares_are_bound_by_the_quota_too() -> None:
    made = scaler(pool(4, min=2), other(min=2, warm_spares=3), quota=Quota(nodes=3))
    plan = made.look_for(10.0, [*rest(4), *(of_other(n) for n in rest(4))])
    assert plan.serve == ("m-1", "n-1", "n-2")
    assert refused(plan)["quota_nodes"] > 0


def test_a_group_is_never_started_in_part_for_want_of_quota() -> None:
    """Each pool has room for its share of the group, and the herd has not for both."""
    small, large = pool(4, resources={"left": 1.0}), other(4, resources={"right": 1.0})
    made = scaler(small, large, quota=Quota(nodes=1))
    both = gang(Strategy.PACK, gpus(8.0, 1, left=1.0), gpus(8.0, 1, right=1.0))
    plan = made.look_for(10.0, [*rest(4), *(of_other(n) for n in rest(4))], gangs=[both])
    assert plan.serve == ()
    assert "gang" in refused(plan)


def test_a_quota_that_is_lowered_sends_nobody_away() -> None:
    made = scaler(pool(4, min=4), quota=Quota(nodes=1))
    plan = made.look_for(10.0, [serving(f"n-{i}", free=0.0) for i in range(1, 5)])
    assert (plan.serve, plan.release) == ((), ())


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        pytest.param({"quota": {"nodes": -1}}, "quota.nodes", id="negative quota"),
        pytest.param({"quota": {"gpus": -1}}, "quota.gpus", id="negative GPUs"),
        pytest.param({"starting_max": 0}, "pool[0].starting_max", id="none may start"),
        pytest.param({"starts_per_minute": 0}, "pool[0].starts_per_minute", id="none a minute"),
    ],
)
def test_bounds_that_let_nothing_be_are_told_with_their_key(changed: dict[str, object], key: str) -> None:
    one = {"name": POOL, "nodes": ["n-1"], **{k: v for k, v in changed.items() if k != "quota"}}
    whole = {
        "cluster": "lab",
        "insecure": True,
        "head": {"addresses": ["h:1"]},
        "pool": [one],
        **{k: v for k, v in changed.items() if k == "quota"},
    }
    with pytest.raises(ConfigInvalid) as refusal:
        parse(ScalerSettings, whole, read_secret=lambda _: "")
    assert key in dict(refusal.value.problems)
