"""How long from a GPU falling off the bus to Ray giving its node no new work: ``python -m bench.reaction``.

Real Ray, two shipped agents with 8 simulated GPUs each. A run breaks one GPU of gpu-1 and takes the time
until DrainNode was accepted; a task submitted then must run on gpu-2. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Final

from gpuherd.errors import HeadUnreachable
from gpuherd.names import NodeName
from gpuherd.ray import RayNode
from gpuherd.settings import Secret
from gpuherd.shell.gcs import Gcs
from gpuherd_sim.demo.processes import Crew
from gpuherd_sim.demo.stage import NODES, Stage, clear, head_command, healthy, set_up
from gpuherd_sim.gpus.scenario_file import write_scenario

RUNS: Final = 20
BUDGET: Final = {"median_s": 2.0, "worst_s": 4.0}
SICK, OTHER = NODES[0], NODES[1]
ACCEPTED: Final = '"drain.accepted"'
_PATIENCE_S: Final = 90.0


def start_agent(stage: Stage, crew: Crew, node: NodeName) -> None:
    """Start an agent that serves without orders: nothing but its own judgement is measured."""
    environment = {**stage.agent_environment(node), "GPUHERD__WITHOUT_ORDERS": "serve"}
    crew.start(node, ["gpuherd-agent", "--config", str(stage.config(node))], environment)


async def until(what: str, is_so: Callable[[], bool], *, step_s: float = 0.2) -> None:
    """Wait until it is so; give up loudly after _PATIENCE_S."""
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(what)
        await asyncio.sleep(step_s)


async def member(gcs: Gcs, name: NodeName, *, other_than: str = "") -> RayNode:
    """Return the node of this name once the head lists it as working under a new id."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        try:
            for node in (await gcs.sight()).nodes:
                if node.name == name and node.is_alive and node.id != other_than and node.total.get("GPU"):
                    return node
        except HeadUnreachable:
            pass
        await asyncio.sleep(0.2)
    raise TimeoutError(f"{name} did not join")


async def one_run(stage: Stage, crew: Crew, gcs: Gcs, sick_id: str) -> tuple[float, bool]:
    """Break the GPU, and return (seconds to the accepted drain, whether a later task ran elsewhere)."""
    import ray  # noqa: PLC0415  see measure

    log = stage.folder / "logs" / f"{SICK}.log"
    where = ray.remote(num_gpus=1, num_cpus=0)(lambda: ray.get_runtime_context().get_node_id())
    began = time.monotonic()
    stage.break_gpu(SICK, 5)
    await until("the drain is accepted", lambda: ACCEPTED in log.read_text("utf-8"), step_s=0.01)
    took_s = time.monotonic() - began
    ran_on = await asyncio.to_thread(ray.get, [where.remote() for _ in range(4)])
    await until("the sick node has left", lambda: '"ray.left"' in log.read_text("utf-8"))
    await restore(stage, crew, gcs, sick_id)
    return took_s, all(node != sick_id for node in ran_on)


async def restore(stage: Stage, crew: Crew, gcs: Gcs, sick_id: str) -> None:
    """Make the node as new: a lost GPU latches, so its agent starts over without a memory."""
    crew.stop(SICK)
    shutil.rmtree(stage.folder / f"{SICK}.state")
    write_scenario(stage.scenario(SICK), healthy(SICK))
    start_agent(stage, crew, SICK)
    await member(gcs, SICK, other_than=sick_id)


async def measure(stage: Stage, crew: Crew, runs: int) -> tuple[list[float], int]:
    """Return the times of all runs, and in how many the later tasks ran elsewhere."""
    # This process is the driver. Ray reads its token's place when it is imported, so not before now.
    os.environ.update({k: v for k, v in stage.environment().items() if k.startswith("RAY_")})
    import ray  # noqa: PLC0415

    crew.start("head", head_command(stage), stage.environment())
    token = Secret(stage.token.read_text("utf-8").strip())
    took: list[float] = []
    elsewhere = 0
    async with Gcs(stage.head, token=token) as gcs:
        for node in (SICK, OTHER):
            start_agent(stage, crew, node)
        sick = await member(gcs, SICK)
        await member(gcs, OTHER)
        ray.init(address=stage.head, log_to_driver=False, include_dashboard=False)
        for run in range(runs):
            seconds, was_elsewhere = await one_run(stage, crew, gcs, sick.id)
            took.append(seconds)
            elsewhere += was_elsewhere
            sick = await member(gcs, SICK, other_than=sick.id)
            print(f"run {run + 1:2}: {seconds:.2f} s, later tasks ran elsewhere: {was_elsewhere}", flush=True)
        ray.shutdown()
    return took, elsewhere


def main() -> None:
    """Run, print, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    stage = set_up()
    crew = Crew(stage.folder)
    try:
        took, elsewhere = asyncio.run(measure(stage, crew, runs))
    finally:
        crew.dismiss()
        clear(stage.folder)
    figures = {"median_s": round(statistics.median(took), 3), "worst_s": round(max(took), 3)}
    within = all(figures[key] <= BUDGET[key] for key in BUDGET) and elsewhere == len(took)
    told = {"bench": "reaction", "runs": len(took), **figures, "elsewhere": elsewhere}
    print(json.dumps({**told, "budget": BUDGET, "within": within}))


if __name__ == "__main__":
    main()
