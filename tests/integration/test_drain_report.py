"""What a draining node says is in its way, on real Ray: a case for each kind; time for a checkpoint."""

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
    name: NodeName

    async def told(self) -> tuple[str, ...]:
        """Return what it would say now."""
        node = await self.cluster.helper(self.name).node(self.cluster.head, self.raylet.node_id)
        return blockers(node, [worker.title for worker in self.child.work(self.raylet) or ()])


async def join(cluster: RayCluster, name: NodeName = NAME) -> Full:
    child = cluster.child(name)
    async with cluster.gcs() as gcs:
        raylet = await child.start(cluster.order(name))
        await until_status(gcs, raylet.node_id, "idle", "running", within_s=60.0)
    return Full(cluster, child, raylet, name)


@pytest.fixture(scope="module")
def full(ray_cluster: RayCluster) -> Iterator[Full]:
    made = asyncio.run(join(ray_cluster))
    try:
        yield made
    finally:
        assert asyncio.run(made.child.stop(made.raylet, grace_s=10.0))
        assert ray_cluster.processes_of(NAME) == []


def blocker(full: Full, kind: str, ready: Path, *more: str) -> list[str]:
    """Return the command of a user's program."""
    program = Path(__file__).parents[1] / "kit" / "ray_blocker.py"
    return [
        *(sys.executable, str(program), "--head", full.cluster.head, "--kind", kind),
        *("--on", full.raylet.node_id, "--ready", str(ready)),
        *more,
    ]


def is_there(path: Path) -> bool:
    return path.exists()


async def until_ready(full: Full, ready: Path, program: str) -> None:
    """Wait for the user's program."""
    end = CLOCK.now() + 60.0
    while not is_there(ready):
        assert CLOCK.now() < end, full.cluster.crew.log_tail(program)
        await CLOCK.sleep_until(CLOCK.now() + 0.1)


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
        await until_ready(full, ready, "blocker")
        await until_told(full, words, "not named")
    finally:
        full.cluster.crew.kill("blocker")
    await until_told(full, None, "not gone")


@pytest.mark.parametrize("seconds", [3.0, pytest.param(20.0, marks=pytest.mark.long)])
async def test_a_trainer_that_writes_a_checkpoint_on_sigterm_gets_its_time(
    ray_cluster: RayCluster, tmp_path: Path, seconds: float
) -> None:
    full = await join(ray_cluster, NodeName(f"train-{seconds:.0f}"))
    out, ready = tmp_path / "checkpoint", tmp_path / "ready"
    command = blocker(full, "checkpoint", ready, "--out", str(out), "--seconds", str(seconds))
    full.cluster.crew.start("trainer", command, full.cluster.stage.environment())
    try:
        await until_ready(full, ready, "trainer")
        assert await full.child.stop(full.raylet, grace_s=60.0)
        assert out.read_text() == "saved"
        assert full.cluster.processes_of(full.name) == []
    finally:
        full.cluster.crew.kill("trainer")


async def test_a_trainer_that_takes_longer_than_the_grace_is_killed(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    full = await join(ray_cluster, NodeName("train-late"))
    out, ready = tmp_path / "checkpoint", tmp_path / "ready"
    command = blocker(full, "checkpoint", ready, "--out", str(out), "--seconds", "600")
    full.cluster.crew.start("trainer", command, full.cluster.stage.environment())
    try:
        await until_ready(full, ready, "trainer")
        assert await full.child.stop(full.raylet, grace_s=1.0)
        assert not out.exists()
        assert full.cluster.processes_of(full.name) == []
    finally:
        full.cluster.crew.kill("trainer")
