"""Laws of the decision that hold for every fleet, demand and memory that we can think of."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
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

from gpuherd.health import Severity
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import RayStatus, Shape
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler import plan as plans
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.quota import Quota
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot

SIZE = 6
FEW = settings(max_examples=60, deadline=None)

KINDS = {
    "standby": standby,
    "booting": booting,
    "serving": serving,
    "busy": lambda n: serving(n, free=0.0),
    "half": lambda n: serving(n, free=4.0),
    "degraded": lambda n: serving(n, severity=Severity.DEGRADED),
    "released": lambda n: serving(n, serve=False),
    "draining": lambda n: serving(
        n,
        serve=False,
        phase=Phase.DRAINING,
        lifecycle=Lifecycle.DRAINING,
        ray=ray_node(n, status=RayStatus.DRAINING),
    ),
    "sick": sick,
    "held": lambda n: standby(n, holds=(hold("user:bob"),)),
    "sick_in_ray": lambda n: serving(n, holds=(hold("health"),)),
    "lost": lambda n: silent(n, serve=True),
    "unreachable": lambda n: silent(n, serve=True, lifecycle=Lifecycle.UNREACHABLE, ray=ray_node(n)),
    "missing": lambda n: silent(n, known=False, age_s=None, online=None, lifecycle=Lifecycle.MISSING),
    "wordless": lambda n: serving(n, witness=Witness()),
}

shapes = st.builds(
    gpus,
    st.sampled_from((0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)),
    st.integers(1, 30),
    CPU=st.sampled_from((0.5, 2.0)),
)
demands = st.lists(shapes, max_size=4)
fleets = st.lists(st.sampled_from(sorted(KINDS)), min_size=SIZE, max_size=SIZE).map(
    lambda kinds: [KINDS[kind](f"n-{i}") for i, kind in enumerate(kinds, start=1)]
)
bounds = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE), st.integers(0, 2), st.integers(1, SIZE)).map(
    lambda t: limits(
        pool(SIZE, min=min(t[:2]), max=max(t[:2]), warm_spares=t[2], leaving_max=t[3], idle_timeout_s=20.0)
    )
)
heads = st.sampled_from(tuple(Freshness))
looks = st.lists(st.tuples(fleets, demands, heads), min_size=1, max_size=5)


def run(bounds: Limits, seen: list[tuple[list[NodeView], list[Shape], Freshness]]) -> tuple[Scaler, Plan]:
    """Look at each fleet several times, so that clocks run out and guards come and go."""
    scaler = Scaler(bounds=bounds)
    for nodes, pending, head in seen:
        plan = scaler.look_for(65, nodes, pending, freshness=head)
    return scaler, plan


def counted(nodes: list[NodeView]) -> int:
    """Return the nodes that no hold, sickness or silence keeps from serving and that are asked to."""
    return sum(n.serve and not n.holds and n.lifecycle is not Lifecycle.LOST for n in nodes)


@FEW
@given(bounds, looks)
def test_each_node_is_served_released_or_kept_with_a_reason(bounds: Limits, seen: list) -> None:  # type: ignore[type-arg]
    _, plan = run(bounds, seen)
    groups = (set(plan.serve), set(plan.release), set(plan.kept))
    assert set.union(*groups) == {n.name for n in seen[-1][0]}
    assert sum(len(group) for group in groups) == SIZE
    assert all((plan.reasons | plan.kept).values())
    assert set(plan.reasons) == groups[0] | groups[1]


@FEW
@given(bounds, looks)
def test_growth_never_exceeds_max(bounds: Limits, seen: list) -> None:  # type: ignore[type-arg]
    _, plan = run(bounds, seen)
    asked = sum(n.serve and not n.holds and n.age_s == 1.0 for n in seen[-1][0])
    silent_in_time = sum(m.serve and m.is_in_ray and m.age_s != 1.0 for m in seen[-1][0])
    ceiling = bounds.pools[0].ceiling
    # Of the booting some may have run out of time: they no longer count, so max is a bound for the rest.
    late = sum(n.lifecycle is Lifecycle.BOOTING for n in seen[-1][0])
    assert not plan.serve or asked + silent_in_time - late + len(plan.serve) <= ceiling


@FEW
@given(bounds, looks, st.integers(0, SIZE), st.integers(1, 3))
def test_growth_never_exceeds_quota_and_starts(
    bounds: Limits,
    seen: list,  # type: ignore[type-arg]
    quota: int,
    starting: int,
) -> None:
    narrow = replace(bounds.pools[0], starting_max=starting)
    _, plan = run(replace(bounds, pools=(narrow,), quota=Quota(nodes=quota)), seen)
    nodes = {n.name: n for n in seen[-1][0]}
    starts = [name for name in plan.serve if not nodes[name].is_in_ray]
    assert len(starts) <= starting
    serve = sum(n.serve and n.is_in_ray and not n.holds and n.age_s == 1.0 for n in nodes.values())
    assert not plan.serve or serve + len(plan.serve) <= quota


@FEW
@given(bounds, looks)
def test_scale_down_never_falls_below_min(bounds: Limits, seen: list) -> None:  # type: ignore[type-arg]
    _, plan = run(bounds, seen)
    healthy = {
        n.name
        for n in seen[-1][0]
        if n.lifecycle is Lifecycle.SERVING and n.serve and not n.holds and n.is_in_ray
    }
    gone = healthy & set(plan.release)
    assert not gone or len(healthy - gone) >= bounds.pools[0].floor


@FEW
@given(bounds, looks, fleets, demands, st.sampled_from((Freshness.STALE, Freshness.FAILED)))
def test_missing_data_never_lowers(
    bounds: Limits,
    seen: list,  # type: ignore[type-arg]
    nodes: list[NodeView],
    pending: list[Shape],
    head: Freshness,
) -> None:
    scaler, _ = run(bounds, seen)
    assert scaler.look(nodes, pending, freshness=head).release == ()
    silenced = [replace(n, age_s=31.0) for n in nodes]
    assert scaler.look_for(120, silenced, pending).release == ()


@FEW
@given(bounds, looks, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_demand_does_not_matter(bounds: Limits, seen: list, rng) -> None:  # type: ignore[no-untyped-def, type-arg]  # noqa: ANN001
    scaler, _ = run(bounds, seen)
    nodes, pending, _ = seen[-1]
    snapshot = picture(nodes, pending, at=scaler.now)
    mixed, shuffled = list(nodes), list(pending)
    rng.shuffle(mixed)
    rng.shuffle(shuffled)
    other = picture(mixed, shuffled, at=scaler.now)

    def decided(of: Snapshot) -> bytes:
        return plans.encode(decide(of, scaler.memory, bounds, scaler.now)[0])

    assert decided(snapshot) == decided(other)


@FEW
@given(bounds, fleets, st.sampled_from((0.5, 1.0, 2.0, 4.0, 8.0)), st.integers(1, 40), st.integers(0, 40))
def test_more_demand_never_asks_for_fewer_nodes(
    bounds: Limits, nodes: list[NodeView], each: float, count: int, more: int
) -> None:
    """Of one shape; over mixed shapes best fit is no more monotone than first fit is."""
    few = Scaler(bounds=bounds).look_for(5, nodes, [gpus(each, count)])
    many = Scaler(bounds=bounds).look_for(5, nodes, [gpus(each, count + more)])
    assert len(many.serve) >= len(few.serve)


@FEW
@given(bounds, fleets, demands)
def test_constant_demand_converges_and_is_silent_then(
    bounds: Limits, nodes: list[NodeView], pending: list[Shape]
) -> None:
    """Each asked node does what it is asked; its pending work is never run, which is the worst case."""
    scaler = Scaler(bounds=bounds)
    for _ in range(80):
        nodes = followed(nodes, scaler.look(nodes, pending))
    quiet = [scaler.look(nodes, pending) for _ in range(60)]
    assert all(plan.is_silent for plan in quiet), [(p.serve, p.release, dict(p.reasons)) for p in quiet]


@FEW
@given(fleets)
def test_a_first_look_releases_nothing(nodes: list[NodeView]) -> None:
    assert Scaler().look(nodes).release == ()
