"""What several integration tests share: one head of Ray, what each test leaves of Ray, and the C library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.kit.probing import HOST
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_strays import Watch

from gpuherd_sim.gpus.library import build_library
from gpuherd_sim.gpus.scenario_file import write_scenario

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
    before = watch.before()
    yield
    assert watch.left(before, grace_s=_GRACE_S) == (), "left behind by this test"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the C library that acts out a scenario."""
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Return the scenario of a healthy host with eight GPUs."""
    path = tmp_path / "gpus.toml"
    write_scenario(path, HOST)
    return path
