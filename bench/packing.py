"""Time of packing pending shapes on a fleet and of a whole decision; one JSON object on its last line."""

import json
import random
import sys
import time
from collections.abc import Sequence

from gpuherd.health import Severity
from gpuherd.names import NodeName, PoolName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import ClusterSight, RayNode, RayStatus, Shape
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.packing import UNBOUNDED, Bin, pack
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot, Sourced

BUDGET_SMALL_S = 0.050
BUDGET_LARGE_S = 1.0
REPEATS = 5


def shapes(kinds: int, requests: int, rng: random.Random) -> list[Shape]:
    """Return ``kinds`` different shapes with ``requests`` requests in all."""
    made: dict[tuple[tuple[str, float], ...], int] = {}
    while len(made) < kinds:
        gpus = rng.choice((0.25, 0.5, 1.0, 2.0, 4.0, 8.0)) if kinds > 1 else 1.0
        resources = [("GPU", gpus)]
        if kinds > 1:
            resources = [
                ("CPU", float(rng.randint(1, 32))),
                *resources,
                ("memory", rng.randint(1, 64) * 2.0**30),
            ]
        made[tuple(resources)] = requests // kinds
    return [Shape(resources=key, count=count) for key, count in made.items()]


def fleet(nodes: int, rng: random.Random, *, distinct: bool) -> list[Bin]:
    """Return half busy, half standby nodes; ``distinct`` = no two busy ones have the same free memory."""
    bins = []
    for i in range(nodes):
        busy = i % 2 == 0
        memory = rng.uniform(100, 1000) * 2.0**30 if distinct else 512.0 * 2**30
        free = {"GPU": float(rng.randint(0, 8)) if busy else 8.0, "CPU": 96.0, "memory": memory}
        if not busy:
            free["CPU"] = UNBOUNDED
        bins.append(Bin(name=f"gpu-{i:05d}", free=free, tier=0 if busy else 2, group="a", opens=not busy))
    return bins


def best_s(demand: Sequence[Shape], bins: Sequence[Bin]) -> float:
    """Return the shortest of a few runs in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        pack(demand, bins, room={"a": len(bins)})
        times.append(time.perf_counter() - start)
    return min(times)


def decision_s(nodes: int, requests: int, kinds: int) -> float:
    """Return the longest of a few decisions over demand that comes, lasts and goes."""
    rng = random.Random(7)
    pool = Pool(name=PoolName("a"), nodes=(f"gpu-[0-{nodes - 1}]",), min=0, gpus_per_node=8)
    limits, memory, longest = Limits(pools=(pool,)), Memory(), 0.0
    views = [_view(name, i, pool) for i, name in enumerate(pool.names)]
    demand = tuple(shapes(kinds, requests, rng))
    for now, pending in ((0.0, demand), (5.0, demand), (10.0, ()), (15.0, demand)):
        sight = ClusterSight(session="s", nodes=tuple(v.ray for v in views if v.ray), pending=pending)
        snapshot = Snapshot(
            at=now,
            cluster=Sourced(value=sight, freshness=Freshness.FRESH, read_at=now),
            nodes={v.name: v for v in views},
        )
        start = time.perf_counter()
        _, memory = decide(snapshot, memory, limits, now)
        longest = max(longest, time.perf_counter() - start)
    return longest


def _view(name: NodeName, i: int, pool: Pool) -> NodeView:
    """Return a busy or idle member, or every third time a node on standby."""
    serves = i % 3 != 0
    free = {"GPU": float(i % 9), "CPU": 96.0, "memory": 2.0**40 - i}
    status = RayStatus.IDLE if i % 9 == 8 else RayStatus.RUNNING
    ray = RayNode(
        id=RayNodeId(name), name=name, status=status, total={"GPU": 8.0, "CPU": 96.0}, available=free
    )
    return NodeView(
        name=name,
        pool=pool.name,
        lifecycle=Lifecycle.SERVING if serves else Lifecycle.STANDBY,
        serve=serves,
        known=True,
        phase=Phase.MEMBER if serves else Phase.OUTSIDE,
        age_s=1.0,
        online=True,
        severity=Severity.OK,
        gpus_usable=8,
        witness=Witness(ray_workers=0, foreign_gpu_processes=0),
        ray=ray if serves else None,
    )


def main() -> int:
    """Run every case and say whether each is within its budget."""
    cases = (
        ("nodes_1000_requests_10000_shapes_1", 1_000, 10_000, 1, False, BUDGET_SMALL_S),
        ("nodes_1000_requests_10000_shapes_16", 1_000, 10_000, 16, False, BUDGET_SMALL_S),
        ("nodes_1000_requests_10000_shapes_16_all_distinct", 1_000, 10_000, 16, True, BUDGET_SMALL_S),
        ("nodes_10000_requests_100000_shapes_64", 10_000, 100_000, 64, False, BUDGET_LARGE_S),
        ("nodes_10000_requests_100000_shapes_64_all_distinct", 10_000, 100_000, 64, True, BUDGET_LARGE_S),
    )
    figures = {}
    for name, nodes, requests, kinds, distinct, budget_s in cases:
        rng = random.Random(7)
        took_s = best_s(shapes(kinds, requests, rng), fleet(nodes, rng, distinct=distinct))
        figures[name] = {"took_s": round(took_s, 4), "budget_s": budget_s, "within": took_s <= budget_s}
    for nodes, requests, kinds, budget_s in (
        (1_000, 10_000, 16, BUDGET_SMALL_S),
        (10_000, 100_000, 64, BUDGET_LARGE_S),
    ):
        took_s = min(decision_s(nodes, requests, kinds) for _ in range(REPEATS))
        name = f"plan_nodes_{nodes}_requests_{requests}_shapes_{kinds}"
        figures[name] = {"took_s": round(took_s, 4), "budget_s": budget_s, "within": took_s <= budget_s}
    passed = all(figure["within"] for figure in figures.values())
    print(json.dumps({"bench": "packing", "passed": passed, "figures": figures}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
