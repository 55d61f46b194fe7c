"""What several integration tests share: one head of Ray."""

from collections.abc import Iterator

import pytest
from tests.kit.ray_cluster import RayCluster


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Return a head that runs, or is about to: ``gcs()`` waits for it."""
    cluster = RayCluster.make()
    try:
        yield cluster
    finally:
        cluster.close()
