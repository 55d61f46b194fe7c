"""From the order to ALIVE in the GCS, ours against plain ``ray start``: ``python -m bench.join``.

Interleaved pairs beside one head on this host; both sides are watched by the same question to the head,
every 20 ms. Ours is all that the agent does: checks, record, start. The last line is one JSON object.
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
from tests.kit.ray_member import CLOCK, Plan, member

from gpuherd.names import NodeName, RayNodeId
from gpuherd.shell.gcs import Gcs
from gpuherd_agent.actuators.ray_command import arguments, environment
from gpuherd_sim.demo.processes import MARK

PAIRS: Final = 10
BUDGET: Final = {"overhead_s": 1.5}
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


async def ours(cluster: RayCluster, name: NodeName, gcs: Gcs) -> float:
    """Return the time from the order; the agent's steward is running and has no orders before."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.make(cluster, name, Path(folder))
        async with member(plan, is_ordered=False) as one:
            await asyncio.sleep(1.0)
            one.order()

            def node_id() -> RayNodeId | None:
                raylet = one.steward.memory.raylet
                return raylet.node_id if raylet is not None else None

            return await seconds_until_alive(gcs, node_id)


async def plain(cluster: RayCluster, name: NodeName, gcs: Gcs) -> float:
    """Return the time from the start of ``ray start`` with the same options, and end it."""
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


async def measure(pairs: int) -> tuple[list[float], list[float]]:
    """Return both sides' times; who begins alternates."""
    cluster = RayCluster.make()
    mine: list[float] = []
    rays: list[float] = []
    try:
        async with cluster.gcs() as gcs:
            for pair in range(pairs):
                sides = [(ours, mine, "ours"), (plain, rays, "plain")]
                for side, times, word in sides if pair % 2 == 0 else reversed(sides):
                    took_s = await side(cluster, NodeName(f"{word}-{pair}"), gcs)
                    times.append(took_s)
                    print(f"pair {pair + 1}: {word:5} {took_s:6.2f} s", flush=True)
    finally:
        cluster.close()
    return mine, rays


def main() -> int:
    """Measure, print, and return 0 when the overhead is within its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    mine, rays = asyncio.run(measure(parser.parse_args().pairs))
    figures = {
        "pairs": len(mine),
        "ours_median_s": round(statistics.median(mine), 2),
        "plain_median_s": round(statistics.median(rays), 2),
        "overhead_s": round(statistics.median(a - b for a, b in zip(mine, rays, strict=True)), 2),
    }
    within = figures["overhead_s"] <= BUDGET["overhead_s"]
    print(json.dumps({"bench": "join", **figures, "budget": BUDGET, "within": within}))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
