"""Two agents of one name on one host, each with its own cluster: what befalls one spares the other."""

import asyncio
import os
import signal
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import Member, Plan, member

from gpuherd.names import NodeName
from gpuherd.phases import Phase

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(240)]

TABLE: Final = tomllib.loads(Path(__file__).with_name("join_cases.toml").read_text(encoding="utf-8"))[
    "beside"
]
NAME: Final = NodeName("twin")


@pytest.fixture
def second() -> Iterator[RayCluster]:
    made = RayCluster.make()
    try:
        yield made
    finally:
        made.close()


async def kill_one(one: Member) -> None:
    """Let the raylet die; it comes back under another id."""
    first = one.raylet
    os.kill(first.pid, signal.SIGKILL)
    await one.until("the loss", lambda: "ray.lost" in [k for k, _ in one.told], within_s=5.0)
    await one.until(
        "it joins again", lambda: [k for k, _ in one.told].count("ray.joined") == 2, within_s=90.0
    )
    assert one.raylet.node_id != first.node_id


async def leave_one(one: Member) -> None:
    """Let the node be wanted no more."""
    memory = one.steward.memory
    assert memory.orders is not None
    idle = msgspec.structs.replace(memory.orders, serve=False)
    assert one.steward.remember(msgspec.structs.replace(memory, orders=idle))
    await one.until("it has left", lambda: "ray.left" in [k for k, _ in one.told], within_s=60.0)
    assert one.steward.station.phase is Phase.OUTSIDE


PLAYS: Final[dict[str, Callable[[Member], Awaitable[None]]]] = {
    "kill_one": kill_one,
    "leave_one": leave_one,
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in TABLE])
async def test_what_befalls_one_of_two_leaves_the_other_alone(
    ray_cluster: RayCluster, second: RayCluster, tmp_path: Path, row: dict[str, Any]
) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    async with ray_cluster.gcs() as first_gcs, second.gcs() as second_gcs:
        here, there = (
            Plan.make(cluster, NAME, folder)
            for cluster, folder in zip((ray_cluster, second), folders, strict=True)
        )
        async with member(here) as one, member(there) as other:
            await asyncio.gather(one.joined(), other.joined())
            before = other.raylet
            assert one.raylet.pid != before.pid
            await PLAYS[row["play"]](one)
            assert other.child.is_alive(before)
            assert other.raylet == before
            assert [k for k, _ in other.told].count("ray.joined") == 1
            assert "ray.lost" not in [k for k, _ in other.told]
            if one.steward.memory.raylet is not None:
                assert not one.child.owns(one.raylet, before.pid)
            mine = [n.id for n in (await first_gcs.sight()).nodes if n.name == NAME and n.is_alive]
            theirs = [n.id for n in (await second_gcs.sight()).nodes if n.name == NAME and n.is_alive]
            assert before.node_id not in mine
            assert theirs == [before.node_id]
