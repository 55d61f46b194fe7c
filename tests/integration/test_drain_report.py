"""What a draining node says is in its way, on real Ray: one case for each kind."""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kit.ray_cluster import GPUS, RayCluster, until_status
from tests.kit.ray_member import CLOCK

from gpuherd.names import NodeName
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.blockers import blockers
from gpuherd_agent.doors import Raylet

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(180)]

NAME = NodeName("full-1")


@dataclass(frozen=True, slots=True)
class Full:
    """A node on which a case puts something."""

    cluster: RayCluster
    child: RayChild
    raylet: Raylet

    async def told(self) -> tuple[str, ...]:
        """Return what it would say now."""
        node = await self.cluster.helper(NAME).node(self.cluster.head, self.raylet.node_id)
        return blockers(node, self.child.work(self.raylet) or ())


async def join(cluster: RayCluster) -> Full:
    child = cluster.child(NAME)
    async with cluster.gcs() as gcs:
        raylet = await child.start(cluster.order(NAME))
        await until_status(gcs, raylet.node_id, "idle", "running", within_s=60.0)
    return Full(cluster, child, raylet)


@pytest.fixture(scope="module")
def full(ray_cluster: RayCluster) -> Iterator[Full]:
    made = asyncio.run(join(ray_cluster))
    try:
        yield made
    finally:
        assert asyncio.run(made.child.stop(made.raylet, grace_s=10.0))
        assert ray_cluster.processes_of(NAME) == []


def blocker(full: Full, kind: str, ready: Path) -> list[str]:
    """Return the command of a user's program."""
    program = Path(__file__).parents[1] / "kit" / "ray_blocker.py"
    return [
        *(sys.executable, str(program), "--head", full.cluster.head, "--kind", kind),
        *("--on", full.raylet.node_id, "--ready", str(ready)),
    ]


async def until_told(full: Full, words: str | None, what: str) -> tuple[str, ...]:
    """Wait for the report to name these words, or nothing at all."""
    end = CLOCK.now() + 30.0
    while True:
        told = await full.told()
        if any(words in one for one in told) if words else not told:
            return told
        assert CLOCK.now() < end, f"{what}: {told}"
        await CLOCK.sleep_until(CLOCK.now() + 0.3)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("task", "task train"),
        ("actor", "actor Trainer"),
        ("placement group", "placement group "),
        ("objects", "objects, 10 MiB"),
    ],
)
async def test_what_blocks_is_named_by_its_kind_and_gone_with_it(
    full: Full, tmp_path: Path, kind: str, words: str
) -> None:
    assert len(GPUS) == 2
    ready = tmp_path / "ready"
    full.cluster.crew.start("blocker", blocker(full, kind, ready), full.cluster.stage.environment())
    try:
        end = CLOCK.now() + 60.0
        while not ready.exists():
            assert CLOCK.now() < end, full.cluster.crew.log_tail("blocker")
            await CLOCK.sleep_until(CLOCK.now() + 0.1)
        await until_told(full, words, "not named")
    finally:
        full.cluster.crew.kill("blocker")
    await until_told(full, None, "not gone")
