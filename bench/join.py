"""From the order to ALIVE in the GCS, ours against plain ``ray start``: ``python -m bench.join``.

Interleaved pairs beside one head on this host; both sides are watched by the same question to the head,
every 20 ms. Ours is all that the agent does: checks, record, start. ``checks`` is the time from the order
until the start of Ray begins, on a node that has rehearsed its join. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import CLOCK, Member, Plan, member

from gpuherd.names import NodeName, RayNodeId
from gpuherd.phases import Phase
from gpuherd.shell.gcs import Gcs
from gpuherd_agent.actuators.ray_command import arguments, environment
from gpuherd_sim.demo.processes import MARK

PAIRS: Final = 10
BUDGET: Final = {"overhead_s": 1.5, "checks_s": 0.5}
_GIVE_UP_S: Final = 120.0


async def seconds_until_alive(gcs: Gcs, node_id: Callable[[], RayNodeId | None]) -> float:
    """Return how long it takes from now until the head lists the node as alive."""
    began = CLOCK.now()
    while CLOCK.now() - began < _GIVE_UP_S:
        wanted = node_id()
        node = await gcs.node(wanted) if wanted is not None else None
        if node is not None and node.is_alive:
            return CLOCK.now() - began
        await asyncio.sleep(0.02)
    raise TimeoutError("the node was never alive")


async def ours(cluster: RayCluster, name: NodeName, gcs: Gcs, checks: list[float]) -> float:
    """Return the time from the order; the agent's steward runs without orders before and has rehearsed."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.make(cluster, name, Path(folder))
        async with member(plan, is_ordered=False) as one:
            await one.until("a rehearsal", lambda: has_rehearsed(one), within_s=30.0)
            one.order()
            ordered_at = CLOCK.now()

            def node_id() -> RayNodeId | None:
                raylet = one.steward.memory.raylet
                return raylet.node_id if raylet is not None else None

            started = asyncio.ensure_future(
                one.until("a start", lambda: one.steward.station.phase is Phase.JOINING, within_s=30.0)
            )
            started.add_done_callback(lambda _: checks.append(CLOCK.now() - ordered_at))
            return await seconds_until_alive(gcs, node_id)


def has_rehearsed(one: Member) -> bool:
    """Say whether the node has made the checks of a join already."""
    station = one.steward.station
    return station.rehearsed_at > 0 and station.under_way is None


async def plain(cluster: RayCluster, name: NodeName, gcs: Gcs, checks: list[float]) -> float:
    """Return the time from the start of ``ray start`` with the same options, and end it."""
    del checks
    settings, order, owner = cluster.settings(name), cluster.order(name), cluster.owner(name)
    base = {**cluster.stage.environment(), MARK: str(cluster.stage.folder)}
    command = [settings.binary, *arguments(settings, order)]
    cluster.crew.start(name, command, environment(settings, order, owner, base))
    try:
        return await seconds_until_alive(gcs, lambda: order.node_id)
    finally:
        child = cluster.child(name)
        raylet = await child.find(None)
        if raylet is not None:
            await child.stop(raylet, grace_s=10.0)
        cluster.crew.kill(name)


async def measure(pairs: int) -> tuple[list[float], list[float], list[float]]:
    """Return both sides' times and those of our checks; who begins alternates."""
    cluster = RayCluster.make()
    mine: list[float] = []
    rays: list[float] = []
    checks: list[float] = []
    try:
        async with cluster.gcs() as gcs:
            for pair in range(pairs):
                sides = [(ours, mine, "ours"), (plain, rays, "plain")]
                for side, times, word in sides if pair % 2 == 0 else reversed(sides):
                    took_s = await side(cluster, NodeName(f"{word}-{pair}"), gcs, checks)
                    times.append(took_s)
                    print(f"pair {pair + 1}: {word:5} {took_s:6.2f} s", flush=True)
    finally:
        cluster.close()
    return mine, rays, checks


def main() -> int:
    """Measure, print, and return 0 when the overhead is within its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    mine, rays, checks = asyncio.run(measure(parser.parse_args().pairs))
    figures = {
        "pairs": len(mine),
        "ours_median_s": round(statistics.median(mine), 2),
        "plain_median_s": round(statistics.median(rays), 2),
        "overhead_s": round(statistics.median(a - b for a, b in zip(mine, rays, strict=True)), 2),
        "checks_s": round(statistics.median(checks), 2),
    }
    within = all(figures[name] <= most for name, most in BUDGET.items())
    print(json.dumps({"bench": "join", **figures, "budget": BUDGET, "within": within}))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
