"""How soon a join that cannot work is named, ours against plain ``ray start``: ``python -m bench.preflight``.

Cases of the table in tests/integration beside one head on this host. Ours ends with the refusal by name;
``ray start`` ends when it ends by itself, or is given up after 30 s. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.integration.test_join_cases import TABLE, broken
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import CLOCK, Plan, member

from gpuherd.names import NodeName
from gpuherd_agent.actuators.ray_command import arguments, environment

CASES: Final = ("head_not_started", "web_server_for_head", "other_token", "no_token", "foreign_address")
GIVE_UP_S: Final = 30.0
BUDGET: Final = {"ours_worst_s": 5.0}


async def ours(cluster: RayCluster, number: int, row: dict[str, object]) -> float:
    """Return the time from the order to the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.make(cluster, NodeName(f"ours-{number}"), Path(folder))
        async with broken(plan, row), member(plan, is_ordered=False) as one:
            await asyncio.sleep(0.5)
            began = CLOCK.now()
            one.order()
            await one.until("a word", lambda: bool(one.told), within_s=GIVE_UP_S)
            assert one.told[0][0] == "join.refused"
            return CLOCK.now() - began


async def plain(cluster: RayCluster, number: int, row: dict[str, object]) -> tuple[float, str]:
    """Return the time until ``ray start`` ended, and its last line; GIVE_UP_S when it did not."""
    with tempfile.TemporaryDirectory() as folder:
        name = NodeName(f"plain-{number}")
        plan = Plan.make(cluster, name, Path(folder))
        async with broken(plan, row):
            order, owner = cluster.order(name, head=plan.head), cluster.owner(name)
            command = [plan.settings.binary, *arguments(plan.settings, order)]
            env = environment(plan.settings, order, owner, cluster.stage.environment())
            began = CLOCK.now()
            cluster.crew.start(name, command, env)
            try:
                await asyncio.to_thread(cluster.crew.code, name, within_s=GIVE_UP_S)
            except subprocess.TimeoutExpired:
                cluster.crew.kill(name)
            took_s = CLOCK.now() - began
            await cluster.child(name)._kill_all(None)  # noqa: SLF001  what a failed start leaves behind
            return took_s, (cluster.crew.log_tail(name).splitlines() or ["nothing"])[-1][:80]


async def measure() -> list[dict[str, object]]:
    """Return a line for each case."""
    cluster = RayCluster.make()
    lines: list[dict[str, object]] = []
    try:
        async with cluster.gcs():
            for number, play in enumerate(CASES):
                row = next(row for row in TABLE["refused"] if row["play"] == play)
                mine_s = await ours(cluster, number, row)
                rays_s, words = await plain(cluster, number, row)
                lines.append({"case": row["name"], "ours_s": round(mine_s, 2), "plain_s": round(rays_s, 1)})
                print(f"{row['name']:45} {mine_s:5.2f} s {','.join(row['codes']):18} {rays_s:5.1f} s {words}")
    finally:
        cluster.close()
    return lines


def main() -> int:
    """Measure, print, and return 0 when each refusal came within its budget."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    lines = asyncio.run(measure())
    worst_s = max(float(str(line["ours_s"])) for line in lines)
    within = worst_s <= BUDGET["ours_worst_s"]
    print(
        json.dumps(
            {
                "bench": "preflight",
                "cases": lines,
                "ours_worst_s": worst_s,
                "budget": BUDGET,
                "within": within,
            }
        )
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
