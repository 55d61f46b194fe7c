"""Equal inputs give equal outputs, whatever the hash seed of the interpreter."""

import os
import subprocess
import sys

from tests.kit.repository import ROOT

SCRIPT = """
from gpuherd_sim.gossip.node import Starvation
from gpuherd_sim.gossip.world import Plan, World

world = World(Plan(nodes=12, seed=7, racks=3, observers=1))
world.network.loss = 0.05
world.run(8.0)
world.kill(2)
world.starve(3, Starvation())
world.network.cut(4, 5)
world.run(20.0)
world.restart(2)
world.run(10.0)
print(world.trace, world.packets_sent, len(world.told))
"""


def trace(hash_seed: str) -> str:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("core", "sim"))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_a_run_is_the_same_byte_by_byte_under_another_hash_seed() -> None:
    traces = {trace(seed) for seed in ("0", "1", "4711")}
    assert len(traces) == 1
    assert int(traces.pop().split()[2]) > 30
