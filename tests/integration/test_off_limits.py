"""What the agent never touches: processes that are not its own, by number, by mark or by cluster."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuherd.names import ClusterName, NodeName, PoolName, RayNodeId
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.ray_command import MARK, Owner
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.doors import Raylet

OWNER = Owner(cluster=ClusterName("lab"), node=NodeName("gpu-1"), pool=PoolName("h200"), agent="/state/1")
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts a process that sleeps; all are ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def make(mark: str = "", *, name: str = "sleep") -> subprocess.Popen[bytes]:
        env = {**os.environ, **({MARK: mark} if mark else {})}
        started.append(
            subprocess.Popen([name, "600"], executable="/bin/sleep", env=env, start_new_session=True)
        )
        return started[-1]

    yield make
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def child(tmp_path: Path) -> RayChild:
    return RayChild(RaySettings(start_timeout_s=0.1), OWNER, log=tmp_path / "log")


def record(pid: int) -> Raylet:
    """Return the record of a raylet as if this process were it."""
    process = processes.read(pid)
    assert process is not None
    return Raylet(
        pid=pid,
        started_ticks=process.started_ticks,
        boot_id=processes.boot_id(),
        node_id=RayNodeId("ab" * 28),
        session_pid=process.session,
    )


async def test_a_pid_that_was_given_to_another_process_is_left_alone(child: RayChild, start: Start) -> None:
    stranger = start()
    mine = record(stranger.pid)
    for stale in (
        replace(mine, started_ticks=mine.started_ticks - 1),
        replace(mine, boot_id="another-boot"),
    ):
        assert not child.is_alive(stale)
        assert not child.owns(stale, stranger.pid)
        assert await child.stop(stale, grace_s=1.0)
        assert stranger.poll() is None


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(replace(OWNER, cluster=ClusterName("other")), id="another cluster on this host"),
        pytest.param(replace(OWNER, node=NodeName("gpu-2")), id="another node's agent on this host"),
        pytest.param(replace(OWNER, agent="/state/2"), id="another agent of this name"),
    ],
)
async def test_the_raylet_of_another_owner_is_neither_found_nor_ended(
    child: RayChild, start: Start, owner: Owner
) -> None:
    theirs, mine = start(owner.mark, name="raylet"), start(OWNER.mark, name="raylet")
    assert await child.find(None) is None, "a raylet that names no node id is not adopted"
    assert await child.stop(record(mine.pid), grace_s=5.0)
    assert mine.wait(5.0) == -signal.SIGTERM
    assert theirs.poll() is None


async def test_a_raylet_that_somebody_started_by_hand_is_not_adopted(child: RayChild, start: Start) -> None:
    by_hand = start(name="raylet")
    assert await child.find(None) is None
    assert by_hand.poll() is None


def test_no_code_of_ours_runs_rays_stop() -> None:
    root = Path(__file__).parents[2]
    told = [
        f"{file.relative_to(root)}: {line.strip()}"
        for folder in ("core", "agent", "autoscaler", "ctl", "sim", "systemd")
        for file in (root / folder).rglob("*")
        if file.suffix in (".py", ".service", ".conf", ".sh")
        for line in file.read_text(encoding="utf-8").splitlines()
        if ("ray stop" in line or '"ray", "stop"' in line) and "ever" not in line
    ]
    assert told == []
