"""Joins that go wrong on real Ray, as a table: each is named by its code in seconds and leaves nothing."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kit.ray_cluster import RayCluster, until_status
from tests.kit.ray_member import Member, Plan, member

from gpuherd.health import Verdict
from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.ray import DrainReason
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.ray_tree import tree
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_sim.demo.stage import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(180)]

TABLE: Final = tomllib.loads(Path(__file__).with_name("join_cases.toml").read_text(encoding="utf-8"))
Row = dict[str, Any]


def rows(kind: str) -> list[Any]:
    """Return the rows of one kind as parameters; those marked ``long`` run in test-long only."""
    return [
        pytest.param(row, id=row["name"], marks=[pytest.mark.long] if row.get("long") else [])
        for row in TABLE[kind]
    ]


@contextlib.asynccontextmanager
async def answering(says: bytes | None) -> AsyncIterator[str]:
    """Listen on loopback and greet every caller so; None = say nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if says:
            writer.write(says)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


# What is broken before the join. Each changes the plan and may hold something meanwhile.


async def head_not_started(plan: Plan) -> None:
    plan.head = f"127.0.0.1:{free_ports(1)[0]}"


async def head_without_address(plan: Plan) -> None:
    plan.head = "no-such-head.invalid:6379"


@contextlib.asynccontextmanager
async def web_server_for_head(plan: Plan) -> AsyncIterator[None]:
    async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as plan.head:
        yield


@contextlib.asynccontextmanager
async def shell_server_for_head(plan: Plan) -> AsyncIterator[None]:
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as plan.head:
        yield


@contextlib.asynccontextmanager
async def mute_head(plan: Plan) -> AsyncIterator[None]:
    async with answering(None) as plan.head:
        yield


async def other_token(plan: Plan) -> None:
    path = plan.folder / "other"
    path.write_text("0" * 64)
    plan.set(token_path=str(path))


async def no_token(plan: Plan) -> None:
    plan.set(auth_mode="disabled", token_path="")


async def token_file_missing(plan: Plan) -> None:
    plan.set(token_path=str(plan.folder / "nothing"))


async def token_file_empty(plan: Plan) -> None:
    path = plan.folder / "empty"
    path.touch()
    plan.set(token_path=str(path))


async def no_ray(plan: Plan) -> None:
    plan.set(binary=str(plan.folder / "no" / "ray"))


def environment_of(plan: Plan, *, ray: str, interpreter: str) -> None:
    """Make an environment that only tells versions, and let the node use it."""
    binary = plan.folder / "env" / "bin" / "ray"
    binary.parent.mkdir(parents=True)
    (plan.folder / "env" / "lib" / "python3.11" / "site-packages" / f"ray-{ray}.dist-info").mkdir(
        parents=True
    )
    binary.write_text(f"#!{interpreter}\n")
    binary.chmod(0o755)
    plan.set(binary=str(binary))


async def older_ray(plan: Plan) -> None:
    environment_of(plan, ray="2.54.0", interpreter=sys.executable)


async def other_python(plan: Plan) -> None:
    python = plan.folder / "python3"
    python.write_text("#!/bin/sh\necho 3.11.0\n")
    python.chmod(0o755)
    environment_of(plan, ray="2.60.0", interpreter=str(python))


async def foreign_address(plan: Plan) -> None:
    plan.set(node_ip="192.0.2.77")


@contextlib.asynccontextmanager
async def port_taken(plan: Plan) -> AsyncIterator[None]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        plan.set(port_base=holder.getsockname()[1] - 1, worker_ports=10)
        yield


async def folder_is_a_file(plan: Plan) -> None:
    (plan.folder / "file").touch()
    plan.set(temp_dir=str(plan.folder / "file" / "ray"))


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextlib.asynccontextmanager
async def disk_full(plan: Plan) -> AsyncIterator[None]:
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own takes root")
    place = plan.folder / "small"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    try:
        (place / "fill").write_bytes(b"x" * 1_040_000)
        plan.set(temp_dir=str(place))
        yield
    finally:
        run("umount", str(place))


async def store_too_large(plan: Plan) -> None:
    plan.set(object_store_bytes=10**15)


async def no_memory(plan: Plan) -> None:
    host = plan.health.snapshot.host
    assert host is not None
    starved = replace(host, memory_available_bytes=host.memory_total_bytes // 50)
    plan.health = replace(plan.health, snapshot=replace(plan.health.snapshot, host=starved))


async def gpu_not_counted(plan: Plan) -> None:
    probe = plan.health.snapshot.probe
    assert probe is not None
    fewer = replace(probe, counted=1, gpus=probe.gpus[:1])
    plan.health = replace(plan.health, snapshot=replace(plan.health.snapshot, probe=fewer))


async def health_unknown(plan: Plan) -> None:
    snapshot = replace(plan.health.snapshot, probe=ProbeReading(outcome=ProbeOutcome.STARTING))
    plan.health = replace(plan.health, snapshot=snapshot, verdict=Verdict())


@contextlib.asynccontextmanager
async def everything_at_once(plan: Plan) -> AsyncIterator[None]:
    async with port_taken(plan):
        for broken in (head_not_started, foreign_address, folder_is_a_file, store_too_large, no_memory):
            await broken(plan)
        yield


# What passes the checks and still is not started.


async def gpu_as_custom_resource(plan: Plan) -> None:
    plan.set(extra_args=('--resources={"GPU": 2}',))


async def more_gpus_than_visible(plan: Plan) -> None:
    plan.set(extra_args=("--num-gpus=3",))


async def reserved_label(plan: Plan) -> None:
    plan.set(extra_args=("--labels=ray.io/node-id=mine",))


# What takes a member away.


async def kill_raylet(one: Member) -> None:
    os.kill(one.raylet.pid, signal.SIGKILL)


def titled(one: Member, title: str) -> list[int]:
    """Return the processes of the raylet's tree that go by this title."""
    return [p.pid for p in tree(one.raylet.pid) if title in " ".join(processes.command(p.pid))]


async def until_titled(one: Member, title: str) -> int:
    """Wait until Ray has given that title to a process, which takes its agents some seconds."""
    await one.until(title, lambda: bool(titled(one, title)), within_s=30.0)
    return titled(one, title)[0]


async def kill_dashboard_agent(one: Member) -> None:
    os.kill(await until_titled(one, "DashboardAgent"), signal.SIGKILL)


async def kill_runtime_env_agent(one: Member) -> None:
    os.kill(await until_titled(one, "RuntimeEnvAgent"), signal.SIGKILL)


async def kill_launcher(one: Member) -> None:
    assert one.raylet.session_pid is not None
    os.kill(one.raylet.session_pid, signal.SIGKILL)


@contextlib.contextmanager
def small_memory() -> Iterator[Path]:
    """Make a group of processes that may take no more memory, and remove it."""
    group = Path("/sys/fs/cgroup/memory") / f"gpuherd-test-{os.getpid()}"
    limit = "memory.limit_in_bytes"
    if not group.parent.is_dir():
        group, limit = Path("/sys/fs/cgroup") / group.name, "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text("1048576")
    except OSError as error:
        pytest.skip(f"no memory limit can be set here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


async def out_of_memory(one: Member) -> None:
    """Let the kernel find the raylet in a group without room: what it next takes ends it."""
    raylet = one.raylet.pid
    with small_memory() as group:
        (group / "cgroup.procs").write_text(str(raylet))
        await one.until("the kernel has ended it", lambda: not one.child.is_alive(one.raylet), within_s=60.0)


async def drained_by_another(one: Member) -> None:
    async with one.plan.cluster.gcs() as gcs:
        await until_status(gcs, one.raylet.node_id, "idle")
        await gcs.drain(one.raylet.node_id, DrainReason.PREEMPTION, "somebody else")


async def stop_raylet(one: Member) -> None:
    os.kill(one.raylet.pid, signal.SIGSTOP)


def play(name: str) -> Callable[..., Any]:
    """Return the function of that name."""
    found: Callable[..., Any] = globals()[name]
    return found


@contextlib.asynccontextmanager
async def broken(plan: Plan, row: Row) -> AsyncIterator[None]:
    """Break what the row names until the block ends."""
    made = play(row["play"])(plan)
    if isinstance(made, AbstractAsyncContextManager):
        async with made:
            yield
    else:
        await made
        yield


@pytest.fixture
def plan(ray_cluster: RayCluster, tmp_path: Path) -> Plan:
    return Plan.make(ray_cluster, NodeName(f"join-{len(ray_cluster.names)}"), tmp_path)


def test_the_table_holds_each_case_once_and_every_code_of_the_checks() -> None:
    names = [row["name"] for kind in TABLE.values() for row in kind]
    assert len(names) == len(set(names)) >= 22
    told = {code for row in TABLE["refused"] for code in row["codes"]}
    assert {row["code"] for kind in ("failed", "lost") for row in TABLE[kind]} <= set(JoinRefusal)
    assert told <= set(JoinRefusal)
    assert set(JoinRefusal) - told == {
        JoinRefusal.HEAD_UNREACHABLE,
        JoinRefusal.VERSION_MISMATCH,
        JoinRefusal.START_TIMED_OUT,
        JoinRefusal.START_FAILED,
        JoinRefusal.NOT_ALIVE,
        JoinRefusal.RAYLET_GONE,
    }


@pytest.mark.parametrize("row", rows("refused"))
async def test_what_stands_in_the_way_is_named_before_ray_is_started(plan: Plan, row: Row) -> None:
    async with plan.cluster.gcs(), broken(plan, row), member(plan) as one:
        await one.until("a word", lambda: bool(one.told), within_s=row["within_s"])
        assert one.told[0][0] == "join.refused"
        assert sorted(one.steward.station.obstacles) == sorted(row["codes"])
        assert one.steward.station.phase is Phase.OUTSIDE
        assert plan.cluster.processes_of(plan.name) == [], "nothing was started"


@pytest.mark.parametrize("row", rows("failed"))
async def test_a_start_that_fails_is_named_and_leaves_nothing(plan: Plan, row: Row) -> None:
    async with plan.cluster.gcs(), broken(plan, row), member(plan) as one:
        await one.until(
            "the failure", lambda: "join.failed" in [k for k, _ in one.told], within_s=row["within_s"]
        )
        assert one.steward.station.obstacles == (row["code"],)
        assert row["says"] in one.steward.station.reason
        assert one.steward.station.phase is Phase.OUTSIDE
        assert plan.cluster.processes_of(plan.name) == []


@pytest.mark.parametrize("row", rows("lost"))
async def test_a_member_that_is_lost_is_noticed_and_leaves_nothing(plan: Plan, row: Row) -> None:
    async with plan.cluster.gcs(), member(plan) as one:
        raylet = await one.joined()
        await play(row["play"])(one)
        await one.until("the loss", lambda: "ray.lost" in [k for k, _ in one.told], within_s=row["within_s"])
        assert one.steward.station.obstacles == (row["code"],)
        assert row["says"] in one.steward.station.reason
        await one.until("it has left", lambda: "ray.left" in [k for k, _ in one.told], within_s=15.0)
        assert not one.child.is_alive(raylet)
        assert len(one.steward.memory.strikes) == 1
