"""The doors to Ray, held against a real head and real raylets: join, find, drain, stop, slots and faults."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.kit.ray_cluster import CLUSTER, GPUS, POOL, RayCluster, until_status

from gpuherd import slots
from gpuherd.errors import HeadUnreachable, TokenRefused
from gpuherd.names import NodeName, PoolName, RayNodeId
from gpuherd.ray import DrainOutcome, DrainReason
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gcs import Gcs
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.head import HeadHelper
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.actuators.ray_tree import tree
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.doors import DrainOrder, JoinFailed, JoinOrder, Raylet
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_sim.demo.stage import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(180)]

CLOCK = SystemClock()
NODES = tuple(NodeName(f"gpu-{i}") for i in range(1, 4))


@dataclass(frozen=True, slots=True)
class Member:
    """A node whose raylet was started here."""

    name: NodeName
    child: RayChild
    order: JoinOrder
    raylet: Raylet


@dataclass(slots=True)
class Trio:
    """Three raylets on this host. ``busy`` runs a task, the two others do nothing."""

    cluster: RayCluster
    members: list[Member]
    busy: Member
    idle: Member
    other: Member


async def join(cluster: RayCluster, name: NodeName) -> Member:
    """Start a node's raylet and wait until the head lists it."""
    child, order = cluster.child(name), cluster.order(name)
    raylet = await child.start(order)
    async with cluster.gcs() as gcs:
        await until_status(gcs, order.node_id, "idle", "running")
    return Member(name, child, order, raylet)


async def until(what: str, *, is_so: Callable[[], bool], within_s: float = 30.0) -> None:
    end = CLOCK.now() + within_s
    while not is_so():
        assert CLOCK.now() < end, f"not within {within_s:.0f} s: {what}"
        await CLOCK.sleep_until(CLOCK.now() + 0.05)


async def make_trio(cluster: RayCluster) -> Trio:
    async with cluster.gcs():
        members = list(await asyncio.gather(*(join(cluster, name) for name in NODES)))
    out = cluster.start_task(600.0)
    await until("the task runs", is_so=lambda: out.exists() and out.read_text().endswith("\n"), within_s=60.0)
    (busy,) = (m for m in members if m.raylet.node_id == out.read_text().strip())
    idle, other = (m for m in members if m is not busy)
    return Trio(cluster, members, busy, idle, other)


@pytest.fixture(scope="module")
def trio(ray_cluster: RayCluster) -> Iterator[Trio]:
    made = asyncio.run(make_trio(ray_cluster))
    try:
        yield made
    finally:
        ended = [asyncio.run(m.child.stop(m.raylet, grace_s=10.0)) for m in made.members]
        assert ended == [True, True, True]


def left_of(cluster: RayCluster, name: NodeName, raylet: Raylet) -> list[Process]:
    """Return what runs of a node: by its mark, or in the session of its launcher."""
    session = [p for p in processes.running() if p.session == raylet.session_pid]
    return [*cluster.processes_of(name), *session]


def drain(member: Member, reason: DrainReason, *, pool: PoolName | None = None) -> DrainOrder:
    return DrainOrder(
        head=member.order.head,
        node_id=member.raylet.node_id,
        reason=reason,
        message="a test",
        pool=pool,
        budget=0 if pool is None else 1,
    )


# Joining.


async def test_three_raylets_started_at_once_on_one_host_all_join_under_the_ids_we_chose(trio: Trio) -> None:
    async with trio.cluster.gcs() as gcs:
        listed = {node.id: node for node in (await gcs.sight()).nodes if node.is_alive}
    for member in trio.members:
        assert member.raylet.node_id == member.order.node_id
        assert member.raylet.gpus == len(GPUS)
        node = listed[member.order.node_id]
        assert node.name == member.name
        assert node.total["GPU"] == len(GPUS)
        assert node.labels["gpuherd.dev/pool"] == POOL
        assert node.labels["ray.io/node-group"] == POOL
    assert len({m.raylet.pid for m in trio.members}) == 3


async def test_versions_of_head_and_installation_are_read_alike(trio: Trio) -> None:
    here = trio.idle.child.versions()
    by_helper = await trio.cluster.helper(trio.idle.name).versions(trio.cluster.head)
    async with trio.cluster.gcs() as gcs:
        assert await gcs.versions() == by_helper
        assert await gcs.alive() == by_helper.ray
    assert (here.ray, here.python) == (by_helper.ray, by_helper.python)
    assert by_helper.session.startswith("session_")


async def test_helper_and_client_tell_a_node_alike(trio: Trio) -> None:
    by_helper = await trio.cluster.helper(trio.other.name).node(trio.cluster.head, trio.other.raylet.node_id)
    assert by_helper is not None
    assert by_helper.name == trio.other.name
    assert by_helper.total["GPU"] == len(GPUS)
    assert await trio.cluster.helper(trio.other.name).node(trio.cluster.head, RayNodeId("ef" * 28)) is None


async def test_a_new_run_of_the_agent_adopts_what_runs(trio: Trio) -> None:
    again = trio.cluster.child(trio.busy.name)
    adopted = await again.find(None)
    assert adopted is not None
    assert replace(adopted, head="") == replace(trio.busy.raylet, head="")
    listed = await trio.cluster.helper(trio.busy.name).node(adopted.head, adopted.node_id)
    assert listed is not None, "the address that Ray resolved reaches the same head"
    assert listed.is_alive
    assert await again.find(trio.busy.raylet) == trio.busy.raylet
    assert again.is_alive(adopted)


async def test_a_second_start_returns_the_raylet_that_runs(trio: Trio) -> None:
    started = await trio.cluster.child(trio.busy.name).start(trio.cluster.order(trio.busy.name))
    assert (started.pid, started.node_id) == (trio.busy.raylet.pid, trio.busy.raylet.node_id)


async def test_no_agent_adopts_another_ones_raylet(trio: Trio) -> None:
    assert await trio.cluster.child(NodeName("gpu-9")).find(None) is None


async def test_a_worker_with_user_code_is_counted_and_owned(trio: Trio) -> None:
    assert len(trio.busy.child.work(trio.busy.raylet) or ()) == 1
    assert len(trio.idle.child.work(trio.idle.raylet) or ()) == 0
    (worker,) = (p.pid for p in tree(trio.busy.raylet.pid) if processes.command(p.pid)[0] == "ray::work")
    assert trio.busy.child.owns(trio.busy.raylet, worker)
    assert not trio.idle.child.owns(trio.idle.raylet, worker)
    assert not trio.busy.child.owns(trio.busy.raylet, os.getpid())


# The key-value store and the slots in it.


async def test_of_32_writers_of_a_key_one_wins_each_of_ten_rounds(ray_cluster: RayCluster) -> None:
    async with ray_cluster.gcs():
        writers = [Gcs(ray_cluster.head, token=ray_cluster.token, timeout_s=20.0) for _ in range(32)]
    try:
        for turn in range(10):
            key = f"gpuherd/race/{turn}"
            won = await asyncio.gather(*(w.kv_create(key, b"%d" % i) for i, w in enumerate(writers)))
            assert won.count(True) == 1
            assert await writers[0].kv_get(key) == b"%d" % won.index(True)
        assert len(await writers[0].kv_keys("gpuherd/race/")) == 10
        assert await writers[0].kv_del("gpuherd/race/0")
        assert not await writers[0].kv_del("gpuherd/race/0")
        assert await writers[0].kv_get("gpuherd/race/0") is None
    finally:
        await asyncio.gather(*(writer.close() for writer in writers))


async def test_a_slot_claimed_by_one_door_is_held_for_the_other_until_it_is_released(
    ray_cluster: RayCluster,
) -> None:
    pool, one, two = PoolName("slots"), NodeName("gpu-1"), NodeName("gpu-2")
    async with ray_cluster.gcs() as gcs:
        first = await gcs.claim_slot(CLUSTER, pool, one, 1)
        assert first == await gcs.claim_slot(CLUSTER, pool, one, 1) == slots.Slot(k=0, n=1)
        assert await gcs.claim_slot(CLUSTER, pool, two, 1) == slots.Full(holders=(one,))
        assert await ray_cluster.helper(two).release(ray_cluster.head, pool)
        assert await gcs.held_slots(CLUSTER, pool) == {slots.Slot(k=0, n=1): one}
        assert await ray_cluster.helper(one).release(ray_cluster.head, pool)
        assert await gcs.held_slots(CLUSTER, pool) == {}
        assert await gcs.claim_slot(CLUSTER, pool, two, 1) == slots.Slot(k=0, n=2)


# Leaving.


async def test_a_busy_node_is_not_drained_as_idle_and_its_slot_is_freed(trio: Trio) -> None:
    pool = PoolName("busy")
    answer = await trio.cluster.helper(trio.busy.name).drain(
        drain(trio.busy, DrainReason.IDLE_TERMINATION, pool=pool)
    )
    assert answer.outcome is DrainOutcome.REJECTED
    assert "no longer idle" in answer.message
    async with trio.cluster.gcs() as gcs:
        assert await gcs.held_slots(CLUSTER, pool) == {}
        node = await gcs.node(trio.busy.raylet.node_id)
    assert node is not None
    assert node.status.value == "running"
    assert len(trio.busy.child.work(trio.busy.raylet) or ()) == 1


async def test_without_a_free_slot_ray_is_not_asked(trio: Trio) -> None:
    pool = PoolName("full")
    async with trio.cluster.gcs() as gcs:
        await gcs.claim_slot(CLUSTER, pool, NodeName("gpu-9"), 1)
        answer = await trio.cluster.helper(trio.idle.name).drain(
            drain(trio.idle, DrainReason.PREEMPTION, pool=pool)
        )
        assert answer.outcome is DrainOutcome.NO_SLOT
        assert "gpu-9" in answer.message
        await until_status(gcs, trio.idle.raylet.node_id, "idle", within_s=1.0)


async def test_an_unknown_node_is_not_drained_though_ray_would_accept_it(trio: Trio) -> None:
    order = drain(trio.idle, DrainReason.PREEMPTION)
    unknown = DrainOrder(head=order.head, node_id=RayNodeId("cd" * 28), reason=order.reason, message="")
    answer = await trio.cluster.helper(trio.idle.name).drain(unknown)
    assert answer.outcome is DrainOutcome.NOT_ALIVE
    assert "unknown" in answer.message


async def test_a_drained_idle_raylet_ends_by_itself_and_keeps_its_slot(trio: Trio) -> None:
    pool, member = PoolName("idle"), trio.idle
    helper = trio.cluster.helper(member.name)
    answer = await helper.drain(drain(member, DrainReason.IDLE_TERMINATION, pool=pool))
    assert answer.outcome is DrainOutcome.ACCEPTED
    await until("the raylet has ended", is_so=lambda: not member.child.is_alive(member.raylet))
    async with trio.cluster.gcs() as gcs:
        await until_status(gcs, member.raylet.node_id, "dead")
        assert list((await gcs.held_slots(CLUSTER, pool)).values()) == [member.name]
    assert member.child.work(member.raylet) is None
    assert (await helper.drain(drain(member, DrainReason.PREEMPTION))).outcome is DrainOutcome.NOT_ALIVE
    assert left_of(trio.cluster, member.name, member.raylet), "the launcher does not notice (Ray 2.60)"
    assert await member.child.stop(member.raylet, grace_s=5.0)
    assert left_of(trio.cluster, member.name, member.raylet) == []


async def test_a_drain_that_had_no_answer_is_carried_out_when_the_raylet_goes_on(trio: Trio) -> None:
    member = trio.other
    os.kill(member.raylet.pid, signal.SIGSTOP)
    try:
        answer = await trio.cluster.helper(member.name, timeout_s=2.0).drain(
            drain(member, DrainReason.PREEMPTION)
        )
        assert answer.outcome is DrainOutcome.UNKNOWN
        assert member.child.is_alive(member.raylet), "a stopped process runs"
    finally:
        os.kill(member.raylet.pid, signal.SIGCONT)
    await until("the raylet has ended", is_so=lambda: not member.child.is_alive(member.raylet), within_s=5.0)
    async with trio.cluster.gcs() as gcs:
        await until_status(gcs, member.raylet.node_id, "dead", within_s=5.0)


async def test_stop_ends_a_busy_raylet_and_all_that_it_started(trio: Trio) -> None:
    member = trio.busy
    assert len(left_of(trio.cluster, member.name, member.raylet)) >= 4
    assert await trio.cluster.child(member.name).stop(member.raylet, grace_s=10.0)
    assert left_of(trio.cluster, member.name, member.raylet) == []
    async with trio.cluster.gcs() as gcs:
        await until_status(gcs, member.raylet.node_id, "dead")


async def test_stop_ends_an_agent_of_ray_that_hangs_after_its_raylet_was_killed(
    ray_cluster: RayCluster,
) -> None:
    member = await join(ray_cluster, NodeName("gpu-4"))
    (hanging,) = (
        p for p in tree(member.raylet.pid) if processes.command(p.pid)[0].startswith("ray::Dashboard")
    )
    os.kill(hanging.pid, signal.SIGSTOP)
    os.kill(member.raylet.pid, signal.SIGKILL)
    await until("the raylet is gone", is_so=lambda: not member.child.is_alive(member.raylet))
    assert await member.child.stop(member.raylet, grace_s=5.0)
    assert left_of(ray_cluster, member.name, member.raylet) == []


# Faults.


@pytest.mark.parametrize("said", ["wrong", "none"])
async def test_a_head_that_refuses_our_token_says_so(
    ray_cluster: RayCluster, tmp_path: Path, said: str
) -> None:
    async with ray_cluster.gcs():
        pass
    (tmp_path / "token").write_text("0" * 64)
    path = str(tmp_path / "token") if said == "wrong" else ""
    helper = HeadHelper(cluster=CLUSTER, node=NODES[0], token_path=path)
    with pytest.raises(TokenRefused, match="refuses our token"):
        await helper.versions(ray_cluster.head)
    order = DrainOrder(
        head=ray_cluster.head, node_id=RayNodeId("ab" * 28), reason=DrainReason.PREEMPTION, message=""
    )
    answer = await helper.drain(order)
    assert answer.outcome is DrainOutcome.UNREACHABLE
    assert "refuses our token" in answer.message
    assert not await helper.release(ray_cluster.head, POOL)


async def test_a_head_that_is_not_there_is_named_by_every_call() -> None:
    head = f"127.0.0.1:{free_ports(1)[0]}"
    helper = HeadHelper(cluster=CLUSTER, node=NODES[0], kill_after_s=60.0)
    started = CLOCK.now()
    with pytest.raises(HeadUnreachable, match=head):
        await helper.versions(head)
    with pytest.raises(HeadUnreachable, match=head):
        await helper.node(head, RayNodeId("ab" * 28))
    order = DrainOrder(head=head, node_id=RayNodeId("ab" * 28), reason=DrainReason.PREEMPTION, message="")
    answer = await helper.drain(order)
    assert answer.outcome is DrainOutcome.UNREACHABLE
    assert head in answer.message
    assert not await helper.release(head, POOL)
    assert CLOCK.now() - started < 20.0, "four refused connections, none waited for to the kill"


async def test_a_head_that_accepts_and_says_nothing_costs_the_time_out() -> None:
    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        head = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Gcs(head, timeout_s=0.5) as gcs:
            with pytest.raises(HeadUnreachable, match=head):
                await gcs.alive()


async def test_a_start_against_a_dead_head_ends_at_its_deadline_and_leaves_nothing(
    ray_cluster: RayCluster,
) -> None:
    name = NodeName("gpu-5")
    child = ray_cluster.child(name, start_timeout_s=5.0)
    with pytest.raises(JoinFailed) as failed:
        await child.start(ray_cluster.order(name, head=f"127.0.0.1:{free_ports(1)[0]}"))
    assert failed.value.code in (JoinRefusal.HEAD_UNREACHABLE, JoinRefusal.START_TIMED_OUT)
    assert "no raylet within 5 s" in failed.value.detail
    assert ray_cluster.processes_of(name) == []


async def test_a_start_that_is_cancelled_leaves_nothing(ray_cluster: RayCluster) -> None:
    name = NodeName("gpu-6")
    child = ray_cluster.child(name)
    starting = asyncio.ensure_future(child.start(ray_cluster.order(name)))
    await until("it is being started", is_so=lambda: bool(ray_cluster.processes_of(name)))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert ray_cluster.processes_of(name) == []
    assert await child.find(None) is None
