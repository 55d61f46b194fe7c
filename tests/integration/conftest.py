"""What several integration tests share: one head of Ray, and a look at what each test leaves of Ray."""

from collections.abc import Iterator
from typing import Final

import pytest
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_strays import Watch

_GRACE_S: Final = 5.0
"""What was killed takes a moment to go."""


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Return a head that runs, or is about to: ``gcs()`` waits for it."""
    cluster = RayCluster.make()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def watch() -> Iterator[Watch]:
    """Return what notes each process that is started from here."""
    with Watch().running() as watch:
        yield watch


@pytest.fixture(autouse=True)
def nothing_of_ray_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test on Ray that leaves a process behind. Set up before the test's own, it ends last."""
    if request.node.get_closest_marker("ray") is None:
        yield
        return
    watch: Watch = request.getfixturevalue("watch")
    before = watch.alive()
    yield
    assert watch.left(before, grace_s=_GRACE_S) == (), "left behind by this test"
