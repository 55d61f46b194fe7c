"""A head that is killed and started again on the same port with its state on disk, on real Ray."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import Plan, member

from gpuherd.names import NodeName
from gpuherd.phases import Phase

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(280)]


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    if os.geteuid() != 0:
        pytest.skip("the head needs a process namespace of its own, which takes root")
    made = RayCluster.make(keeps_state=True)
    try:
        yield made
    finally:
        made.close()


async def test_with_state_on_disk_the_raylet_stays_a_member_and_its_work_goes_on(
    cluster: RayCluster, tmp_path: Path
) -> None:
    async with cluster.gcs() as gcs:
        before = await gcs.versions()
        async with member(Plan.make(cluster, NodeName("stay"), tmp_path)) as one:
            raylet = await one.joined()
            out = cluster.start_task(1.0)
            await one.until(
                "a task has run", lambda: out.exists() and "finished" in out.read_text(), within_s=60
            )
            cluster.kill_head()
            cluster.start_head()
            async with cluster.gcs() as again:
                assert (await again.versions()).session == before.session
            later = cluster.start_task(0.1)
            await one.until(
                "a later task has run",
                lambda: later.exists() and "finished" in later.read_text(),
                within_s=90,
            )
            assert one.raylet == raylet, "the same process under the same id"
            assert one.steward.station.phase is Phase.MEMBER
            assert "ray.lost" not in [kind for kind, _ in one.told]
            assert later.read_text().startswith(raylet.node_id)
