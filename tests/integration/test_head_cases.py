"""What becomes of a node and its work when the head is killed and starts again, on real Ray, as a table."""

import asyncio
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import Member, Plan, member

from gpuherd.names import NodeName
from gpuherd.phases import Phase

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(280)]

TABLE: Final = tomllib.loads(Path(__file__).with_name("join_cases.toml").read_text(encoding="utf-8"))["head"]


def rows(*, stays: bool) -> list[Any]:
    """Return the rows in which the member stays, or those in which it has to join again."""
    return [pytest.param(row, id=row["name"]) for row in TABLE if row["stays"] is stays]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[RayCluster]:
    if os.geteuid() != 0:
        pytest.skip("the head needs a process namespace of its own, which takes root")
    row = request.getfixturevalue("row")
    made = RayCluster.make(may_restart=True, keeps_state=row["keeps_state"])
    try:
        yield made
    finally:
        made.close()


def has_begun(out: Path) -> bool:
    return out.exists() and out.read_text().endswith("\n")


def has_finished(out: Path) -> bool:
    return out.exists() and "finished" in out.read_text()


async def restart(cluster: RayCluster, *, away_s: float) -> None:
    """Kill the head, leave it away so long, and start it again on its port."""
    cluster.kill_head()
    await asyncio.sleep(away_s)
    cluster.start_head()


def kinds(one: Member) -> list[str]:
    """Return what it told, in order; warnings are of no interest here."""
    return [kind for kind, _ in one.told if kind != "join.warned"]


@pytest.mark.parametrize("row", rows(stays=True))
async def test_with_its_state_a_head_finds_its_raylet_and_the_work_on_it_again(
    cluster: RayCluster, tmp_path: Path, row: dict[str, Any]
) -> None:
    plan = Plan.make(cluster, NodeName("stay"), tmp_path)
    async with cluster.gcs() as gcs:
        before = await gcs.versions()
    async with member(plan) as one:
        raylet = await one.joined()
        out = cluster.start_task(row["task_s"], beside=plan.settings.temp_dir)
        await one.until("the task runs", lambda: has_begun(out), within_s=60.0)
        await restart(cluster, away_s=row["away_s"])
        async with cluster.gcs() as again:
            assert (await again.versions()).session == before.session
        assert not has_finished(out), "it outlasted the restart"
        await one.until("the task has finished", lambda: has_finished(out), within_s=row["within_s"])
        later = cluster.start_task(0.1)
        await one.until("a later task has run", lambda: has_finished(later), within_s=row["within_s"])
        assert one.raylet == raylet, "the same process under the same id"
        assert one.steward.station.phase is Phase.MEMBER
        assert kinds(one).count("ray.joined") == 1
        assert not {"ray.lost", "head.new_session"} & set(kinds(one))
        assert out.read_text().startswith(raylet.node_id)
        assert later.read_text().startswith(raylet.node_id)


@pytest.mark.parametrize("row", rows(stays=False))
async def test_an_empty_head_is_a_new_cluster_that_the_node_joins_without_a_strike(
    cluster: RayCluster, tmp_path: Path, row: dict[str, Any]
) -> None:
    plan = Plan.make(cluster, NodeName("again"), tmp_path)
    async with cluster.gcs(), member(plan) as one:
        first = await one.joined()
        if not row["agent_is_away"]:
            await restart(cluster, away_s=row["away_s"])
            await one.until(
                "it joins again", lambda: kinds(one).count("ray.joined") == 2, within_s=row["within_s"]
            )
            assert kinds(one)[2:] == row["told"]
            check(one, first.node_id)
    if row["agent_is_away"]:
        await restart(cluster, away_s=row["away_s"])
        async with cluster.gcs(), member(plan) as one:
            await one.until("it joins again", lambda: "ray.joined" in kinds(one), within_s=row["within_s"])
            assert kinds(one) == row["told"]
            check(one, first.node_id)


def check(one: Member, first_id: str) -> None:
    """Hold the node to a clean second join."""
    assert one.steward.station.phase is Phase.MEMBER
    assert one.raylet.node_id != first_id
    assert one.steward.memory.strikes == ()
    assert one.steward.memory.holds == ()
