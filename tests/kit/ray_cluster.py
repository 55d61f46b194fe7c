"""A real head of Ray on loopback for tests, and doors to raylets beside it. Ends all that it started.

Needs no root and no broker; ``herd`` is the kit for the whole agent.
"""

import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from gpuherd.errors import HeadUnreachable
from gpuherd.names import ClusterName, GpuUuid, NodeName, PoolName, RayNodeId
from gpuherd.ray import RayNode
from gpuherd.settings import Secret
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gcs import Gcs
from gpuherd_agent.actuators.head import HeadHelper
from gpuherd_agent.actuators.processes import Process, running
from gpuherd_agent.actuators.ray_command import MARK as RAYLET_MARK
from gpuherd_agent.actuators.ray_command import Owner
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.doors import JoinOrder
from gpuherd_sim.demo.processes import MARK, Crew
from gpuherd_sim.demo.stage import OBJECT_STORE_BYTES, Stage, clear, head_command, set_up

CLUSTER: Final = ClusterName("lab")
POOL: Final = PoolName("h200")
GPUS: Final = tuple(GpuUuid(f"GPU-{i:08x}-0000-0000-0000-000000000000") for i in range(2))

HEALTH_CHECK: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}
"""A raylet that is gone is noticed within 5 s, one that is stopped after 11 to 15 s: a stopped one can so be
told from a dead one, which the herd's quicker check cannot."""

_HEAD_S: Final = 60.0


@dataclass(slots=True)
class RayCluster:
    """Start with ``RayCluster.make()``; ``close`` ends every process and removes every file."""

    stage: Stage
    crew: Crew
    tasks: int = 0
    keeps_state: bool = False
    may_restart: bool = False
    names: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, *, keeps_state: bool = False, may_restart: bool = False) -> "RayCluster":
        """Return a cluster whose head is being started.

        ``may_restart`` = it can be killed and started again, which takes root; ``keeps_state`` = it then has
        its state on disk, else it comes back empty.
        """
        stage = set_up()
        cluster = cls(stage=stage, crew=Crew(stage.folder), keeps_state=keeps_state, may_restart=may_restart)
        cluster.start_head()
        return cluster

    def start_head(self) -> None:
        """Start the head, in a process namespace of its own if it is to be started again.

        Beside a raylet that names its address Ray 2.60 refuses to start a head.
        """
        alone = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"] if self.may_restart else []
        disk = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(self.stage.folder / "gcs")}
        (self.stage.folder / "h" / "ray_current_cluster").unlink(missing_ok=True)
        self.crew.start(
            "head",
            [*alone, *head_command(self.stage)],
            {**self.stage.environment(), **HEALTH_CHECK, **(disk if self.keeps_state else {})},
        )

    def kill_head(self) -> None:
        """End the head and all that it started, as a power cut would: its namespace ends with its first."""
        children = psutil.Process(self.crew.pid("head")).children(recursive=True)
        self.crew.kill("head")
        psutil.wait_procs(children, timeout=10.0)

    def close(self) -> None:
        """End everything; fails when something would not end."""
        is_clean = self.crew.dismiss()
        clear(self.stage.folder)
        assert is_clean, "a process of the cluster would not end"

    @property
    def head(self) -> str:
        """Return the head's address."""
        return self.stage.head

    @property
    def token(self) -> Secret:
        """Return the token that the head takes."""
        return Secret(self.stage.token.read_text(encoding="utf-8").strip())

    @asynccontextmanager
    async def gcs(self, *, timeout_s: float = 3.0) -> AsyncIterator[Gcs]:
        """Speak to the head, which answers once the block is entered."""
        async with Gcs(self.head, token=self.token, timeout_s=timeout_s) as gcs:
            end = time.monotonic() + _HEAD_S
            while True:
                try:
                    await gcs.versions()
                    break
                except HeadUnreachable:
                    if time.monotonic() > end:
                        raise
                clock = SystemClock()
                await clock.sleep_until(clock.now() + 0.2)
            yield gcs

    def helper(self, node: NodeName, *, timeout_s: float = 3.0) -> HeadHelper:
        """Return an agent's door to the head."""
        return HeadHelper(
            cluster=CLUSTER,
            node=node,
            token_path=str(self.stage.token),
            timeout_s=timeout_s,
            kill_after_s=30.0,
        )

    def owner(self, node: NodeName) -> Owner:
        """Return whose raylet a node's is."""
        return Owner(cluster=CLUSTER, node=node, pool=POOL, agent=str(self.stage.folder))

    def settings(self, node: NodeName, *, start_timeout_s: float = 90.0) -> RaySettings:
        """Return ``[ray]`` of a node, with a folder of its own."""
        if node not in self.names:
            self.names.append(node)
        return RaySettings(
            binary=str(Path(sys.executable).parent / "ray"),
            token_path=str(self.stage.token),
            num_cpus=1,
            object_store_bytes=OBJECT_STORE_BYTES,
            temp_dir=str(self.stage.folder / f"r{self.names.index(node)}"),
            start_timeout_s=start_timeout_s,
        )

    def child(self, node: NodeName, *, start_timeout_s: float = 90.0) -> RayChild:
        """Return a new door to a node's raylet, as a new run of its agent would make it."""
        return RayChild(
            self.settings(node, start_timeout_s=start_timeout_s),
            self.owner(node),
            log=self.stage.folder / f"{node}.start.log",
            environ={**self.stage.environment(), MARK: str(self.stage.folder)},
        )

    def order(self, node: NodeName, *, head: str = "") -> JoinOrder:
        """Return the order to join with both GPUs and a new node id."""
        return JoinOrder(
            head=head or self.head,
            node=node,
            gpus=GPUS,
            node_id=RayNodeId(secrets.token_hex(28)),
            labels={"gpuherd.dev/pool": POOL},
        )

    def start_task(self, seconds: float, *, beside: str = "") -> Path:
        """Start a user's program with one task on one GPU; its file tells where it ran and that it ended.

        The program hangs on the head's host, or on the node with the folder ``beside``: Ray ends the work of
        programs whose host is gone.
        """
        self.tasks += 1
        out = self.stage.folder / f"task-{self.tasks}"
        command = [sys.executable, str(Path(__file__).with_name("ray_task.py"))]
        command += ["--head", self.head, "--seconds", str(seconds), "--out", str(out), "--beside", beside]
        self.crew.start(f"task-{self.tasks}", command, self.stage.environment())
        return out

    def processes_of(self, node: NodeName) -> list[Process]:
        """Return all that runs with a node's mark."""
        mark = f"{RAYLET_MARK}={self.owner(node).mark}".encode()
        return [process for process in running() if mark in _environment(process.pid)]


async def until_status(gcs: Gcs, node_id: RayNodeId, *statuses: str, within_s: float = 30.0) -> RayNode:
    """Wait until the head lists the node so; the failure tells what it said last."""
    clock = SystemClock()
    end = clock.now() + within_s
    while True:
        node = await gcs.node(node_id)
        if node is not None and node.status.value in statuses:
            return node
        assert clock.now() < end, f"not within {within_s:.0f} s: {node_id} is {statuses}; it is {node}"
        await clock.sleep_until(clock.now() + 0.1)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
