"""The fake Ray does what real Ray was measured to do; each row names where the fact was measured.

Sources are sections of the project's Ray research, made on Ray 2.60.0 with its default settings.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from gpuherd.errors import HeadUnreachable
from gpuherd.names import ClusterName, GpuUuid, NodeName, PoolName, RayNodeId
from gpuherd.ray import DrainAnswer, DrainOutcome, DrainReason, RayNode, RayStatus, Shape
from gpuherd_agent.doors import DrainOrder, JoinFailed, JoinOrder, Raylet
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_sim.journal import Journal
from gpuherd_sim.process import Process
from gpuherd_sim.ray_fake.doors import FakeHeads, FakeRaylets, FakeSight
from gpuherd_sim.ray_fake.head import FakeHead
from gpuherd_sim.ray_fake.raylet import RayletProcess
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.virtual_time import VirtualLoop, run

HEAD = "head:6379"
CLUSTER = ClusterName("c1")
POOL = PoolName("gpu")
NODE = NodeName("n1")


class World:
    """A head and the doors of one node, with shorthands for what rows do."""

    def __init__(self, loop: VirtualLoop, timing: Timing | None = None) -> None:
        self.loop = loop
        self.journal = Journal(loop.time)
        self.head = FakeHead(loop, self.journal, timing)
        self.raylets = FakeRaylets(self.head, boot_id="b1")
        self.heads = FakeHeads(self.head, NODE, cluster=CLUSTER)
        self.sight = FakeSight(self.head).sight

    async def join(self, *, gpus: int = 1, wait_s: float = 8.0) -> Raylet:
        before = self.loop.time()
        raylet = await self.raylets.start(order(gpus=gpus))
        await asyncio.sleep(wait_s - (self.loop.time() - before))
        return raylet

    def process(self) -> RayletProcess:
        (process,) = self.raylets.processes()
        return process

    async def drain(
        self,
        reason: DrainReason = DrainReason.PREEMPTION,
        *,
        deadline_s: float | None = None,
        node_id: str = "ab" * 28,
        budget: int = 0,
    ) -> DrainAnswer:
        return await self.heads.drain(
            DrainOrder(
                head=HEAD,
                node_id=RayNodeId(node_id),
                reason=reason,
                message="test",
                deadline_s=deadline_s,
                pool=POOL if budget else None,
                budget=budget,
            )
        )

    async def seen(self) -> RayNode:
        node = await self.heads.node(HEAD, RayNodeId("ab" * 28))
        assert node is not None
        return node

    def at(self, kind: str) -> float:
        return next(entry.at for entry in self.journal.of(kind))


def order(*, gpus: int = 1, node: NodeName = NODE, node_id: str = "ab" * 28) -> JoinOrder:
    names = tuple(GpuUuid(f"GPU-{i}") for i in range(gpus))
    return JoinOrder(head=HEAD, node=node, gpus=names, node_id=RayNodeId(node_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured fact, how to bring it about here, and where it was measured."""

    fact: str
    source: str
    act: Callable[[World], Awaitable[object]]
    expected: object


async def _idle_drain_of_idle(w: World) -> object:
    await w.join()
    answer = await w.drain(DrainReason.IDLE_TERMINATION)
    await asyncio.sleep(0.2)
    return answer.outcome, (await w.seen()).status, w.raylets.processes()


async def _idle_drain_of_busy(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=30)
    await asyncio.sleep(1)
    answer = await w.drain(DrainReason.IDLE_TERMINATION)
    await asyncio.sleep(60)
    return answer.outcome, answer.message, w.process().drain_reason


async def _drain_of_busy_waits(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=30)
    await asyncio.sleep(1)
    await w.drain()
    await asyncio.sleep(20)
    still_there = len(w.raylets.processes())
    await asyncio.sleep(10)
    return still_there, len(w.raylets.processes()), w.head.work.is_finished, list(w.journal.of("task.lost"))


async def _draining_takes_no_work(w: World) -> object:
    await w.join(gpus=2)
    w.head.work.submit(1, duration_s=30)
    await asyncio.sleep(1)
    await w.drain()
    w.head.work.submit(1, duration_s=1)
    await asyncio.sleep(5)
    return len(list(w.journal.of("task.started"))), (await w.sight()).pending


async def _deadline_passes(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=100)
    await asyncio.sleep(1)
    await w.drain(deadline_s=12)
    await asyncio.sleep(49)
    return len(w.raylets.processes()), (await w.seen()).status


async def _second_drain_overwrites(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=100)
    await asyncio.sleep(1)
    await w.drain(deadline_s=12)
    first = w.process().drain_deadline_s
    answer = await w.drain(DrainReason.IDLE_TERMINATION)
    return first, answer.outcome, w.process().drain_deadline_s


async def _unknown_id_in_ray(w: World) -> object:
    return w.head.drain(RayNodeId("00" * 28), DrainReason.PREEMPTION, None, "")


async def _unknown_id_by_our_door(w: World) -> object:
    answer = await w.drain(node_id="00" * 28)
    return answer.outcome, list(w.journal.of("drain.asked"))


async def _draining_shows_with_a_lag(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=100)
    await asyncio.sleep(1.5)
    await w.drain()
    at_once = (await w.seen()).status
    await asyncio.sleep(1.0)
    return at_once, (await w.seen()).status


async def _pending_is_counted_by_shape(w: World) -> object:
    w.head.work.submit(5_000, duration_s=1, resources={"GPU": 4.0})
    before = (await w.sight()).pending
    await asyncio.sleep(1.0)
    return before, (await w.sight()).pending


async def _lease_after_join(w: World) -> object:
    w.head.work.submit(1, duration_s=1)
    await w.join(wait_s=9)
    return round(w.at("task.started") - w.at("node.joined"), 2)


async def _killed_raylet(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=100)
    await asyncio.sleep(1)
    killed_at = w.loop.time()
    w.head.kill_raylet(w.process(), cause="fault")
    await asyncio.sleep(20)
    return round(w.at("node.dead") - killed_at, 1), len(list(w.journal.of("task.lost")))


async def _stopped_raylet_is_dead_late(w: World) -> object:
    await w.join()
    stopped_at = w.loop.time()
    process = w.process()
    w.head.stop_raylet(process)
    await asyncio.sleep(70)
    dead_after = round(w.at("node.dead") - stopped_at, 1)
    w.head.resume_raylet(process)
    await asyncio.sleep(0.2)
    return dead_after, w.raylets.processes()


async def _drain_of_stopped_raylet(w: World) -> object:
    await w.join()
    process = w.process()
    w.head.stop_raylet(process)
    asked_at = w.loop.time()
    answer = await w.drain()
    waited = round(w.loop.time() - asked_at, 1)
    status = (await w.seen()).status
    w.head.resume_raylet(process)
    await asyncio.sleep(1)
    return answer.outcome, waited, status, (await w.seen()).status


async def _sigterm(w: World) -> object:
    raylet = await w.join()
    asked_at = w.loop.time()
    clean = await w.raylets.stop(raylet, grace_s=60)
    return clean, round(w.at("node.dead") - asked_at, 2), round(w.loop.time() - asked_at, 1)


async def _stuck(w: World) -> object:
    raylet = await w.join()
    w.process().is_stuck = True
    return await w.raylets.stop(raylet, grace_s=60), w.raylets.is_alive(raylet)


async def _head_down(w: World) -> object:
    await w.join()
    w.head.work.submit(1, duration_s=10)
    await asyncio.sleep(1)
    w.head.kill()
    with pytest.raises(HeadUnreachable):
        await w.sight()
    await asyncio.sleep(20)
    return len(w.raylets.processes()), w.head.work.is_finished, (await w.drain()).outcome


async def _head_gone_for_good(w: World) -> object:
    await w.join()
    w.head.kill()
    await asyncio.sleep(599)
    before = len(w.raylets.processes())
    await asyncio.sleep(2)
    return before, len(w.raylets.processes())


async def _head_restarted_empty(w: World) -> object:
    await w.join()
    session = w.head.session
    await w.heads._claim(POOL, 1)
    w.head.kill()
    w.head.start(empty=True)
    await asyncio.sleep(14.1)
    keys = w.head.keys.under(b"gpuherd", b"")
    return session == w.head.session, w.raylets.processes(), (await w.sight()).nodes, keys


async def _head_restarted_with_storage(w: World) -> object:
    await w.join()
    session = w.head.session
    await w.heads._claim(POOL, 1)
    w.head.kill()
    w.head.start(empty=False)
    await asyncio.sleep(60)
    keys = w.head.keys.under(b"gpuherd", b"")
    return session == w.head.session, len(w.raylets.processes()), (await w.seen()).status, len(keys)


async def _create_once(w: World) -> object:
    puts = [w.head.keys.put(b"gpuherd", b"k", b"%d" % i, overwrite=False) for i in range(32)]
    return puts.count(True), w.head.keys.get(b"gpuherd", b"k"), w.head.keys.get(b"other", b"k")


async def _refused_start(w: World) -> object:
    w.raylets.fails = JoinFailed(JoinRefusal.START_TIMED_OUT, "overloaded")
    with pytest.raises(JoinFailed, match="overloaded"):
        await w.raylets.start(order())
    return w.raylets.processes()


async def _start_outlives_the_agent(w: World) -> object:
    agent = Process(w.loop, "agent", lambda: w.raylets.start(order()))
    await asyncio.sleep(1)
    agent.kill()
    found = await w.raylets.find(None)
    await asyncio.sleep(8)
    return found is not None and w.raylets.is_alive(found), (await w.seen()).status


TABLE = (
    Row(
        fact="an idle node takes IDLE_TERMINATION and exits",
        source="ray §2",
        act=_idle_drain_of_idle,
        expected=(DrainOutcome.ACCEPTED, RayStatus.DEAD, ()),
    ),
    Row(
        fact="a busy node refuses IDLE_TERMINATION and is untouched",
        source="ray §2",
        act=_idle_drain_of_busy,
        expected=(DrainOutcome.REJECTED, "The node to be idle terminated is no longer idle.", None),
    ),
    Row(
        fact="PREEMPTION lets running work end, then the raylet exits by itself",
        source="ray §2",
        act=_drain_of_busy_waits,
        expected=(1, 0, True, []),
    ),
    Row(
        fact="a draining node takes no new work; it waits as demand",
        source="ray §2",
        act=_draining_takes_no_work,
        expected=(1, (Shape(resources=(("GPU", 1.0),), count=1),)),
    ),
    Row(
        fact="nothing happens at the deadline",
        source="ray §2",
        act=_deadline_passes,
        expected=(1, RayStatus.DRAINING),
    ),
    Row(
        fact="a second drain overwrites the first, an idle one on a draining busy node wipes its deadline",
        source="ray §2",
        act=_second_drain_overwrites,
        expected=(12, DrainOutcome.ACCEPTED, None),
    ),
    Row(fact="Ray accepts an unknown id", source="ray §2", act=_unknown_id_in_ray, expected=True),
    Row(
        fact="our door never asks for an unknown id",
        source="design §4",
        act=_unknown_id_by_our_door,
        expected=(DrainOutcome.NOT_ALIVE, []),
    ),
    Row(
        fact="DRAINING shows 0.4 to 1 s late",
        source="ray §2",
        act=_draining_shows_with_a_lag,
        expected=(RayStatus.RUNNING, RayStatus.DRAINING),
    ),
    Row(
        fact="pending tasks are counted by shape, exact, up to a second late",
        source="ray §3",
        act=_pending_is_counted_by_shape,
        expected=((), (Shape(resources=(("GPU", 4.0),), count=5_000),)),
    ),
    Row(
        fact="a new node gets its first task after 0.16 s",
        source="ray §1",
        act=_lease_after_join,
        expected=0.16,
    ),
    Row(
        fact="a killed raylet is DEAD after 14 s and its task is lost at once",
        source="ray §7",
        act=_killed_raylet,
        expected=(14.0, 1),
    ),
    Row(
        fact="a stopped raylet is DEAD after 64.7 s and ends itself when it goes on",
        source="ray §7",
        act=_stopped_raylet_is_dead_late,
        expected=(64.7, ()),
    ),
    Row(
        fact="DrainNode on a stopped raylet times out, changes nothing visible, and is carried out later",
        source="control A1",
        act=_drain_of_stopped_raylet,
        expected=(DrainOutcome.UNKNOWN, 3.0, RayStatus.IDLE, RayStatus.DEAD),
    ),
    Row(
        fact="SIGTERM: DEAD within 40 ms, process gone in 1.1 s",
        source="ray §2",
        act=_sigterm,
        expected=(True, 0.03, 1.1),
    ),
    Row(fact="a process in state D outlives KILL", source="design §4", act=_stuck, expected=(False, True)),
    Row(
        fact="without a head raylets and running tasks go on",
        source="ray §7",
        act=_head_down,
        expected=(1, True, DrainOutcome.UNREACHABLE),
    ),
    Row(
        fact="a raylet ends once its reconnect time is over",
        source="ray §7",
        act=_head_gone_for_good,
        expected=(1, 0),
    ),
    Row(
        fact="a head restarted empty is a new session; raylets exit within 14 s, keys are gone",
        source="ray §7 §8",
        act=_head_restarted_empty,
        expected=(False, (), (), {}),
    ),
    Row(
        fact="a head restarted with storage keeps session, raylets and keys",
        source="ray §7 §8",
        act=_head_restarted_with_storage,
        expected=(True, 1, RayStatus.IDLE, 1),
    ),
    Row(
        fact="32 create-once writers have one winner, and namespaces are apart",
        source="ray §8",
        act=_create_once,
        expected=(1, b"0", None),
    ),
    Row(fact="a failed start leaves nothing", source="ray §1", act=_refused_start, expected=()),
    Row(
        fact="a start under way outlives the agent, since it has a session of its own",
        source="ray §1",
        act=_start_outlives_the_agent,
        expected=(True, RayStatus.IDLE),
    ),
)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.fact) for row in TABLE])
def test_the_fake_behaves_as_measured(row: Row) -> None:
    async def main(loop: VirtualLoop) -> object:
        return await row.act(World(loop))

    assert run(main, until_s=2_000) == row.expected


@pytest.mark.parametrize("latency_s", [0.0, 0.1])
def test_racing_claims_never_exceed_the_budget(latency_s: float) -> None:
    """32 nodes claim 3 slots at once; the store's atomic create decides, whatever the latency."""

    async def main(loop: VirtualLoop) -> tuple[int, int]:
        head = FakeHead(loop, Journal(loop.time), Timing(kv_s=latency_s))
        doors = [FakeHeads(head, NodeName(f"n{i}"), cluster=CLUSTER) for i in range(32)]
        async with asyncio.TaskGroup() as group:
            claims = [group.create_task(door._claim(POOL, 3)) for door in doors]
        won = [claim.result() == "" for claim in claims].count(True)
        return won, len(list(head.journal.of("slot.claimed")))

    assert run(main, until_s=100) == (3, 3)


def test_a_released_slot_can_be_won_by_another_node() -> None:
    async def main(loop: VirtualLoop) -> tuple[str, str, bool, str]:
        head = FakeHead(loop, Journal(loop.time))
        first, second = (FakeHeads(head, NodeName(name), cluster=CLUSTER) for name in ("n1", "n2"))
        return (
            await first._claim(POOL, 1),
            await second._claim(POOL, 1),
            await first.release(HEAD, POOL),
            await second._claim(POOL, 1),
        )

    assert run(main, until_s=100) == ("", "all 1 slots of gpu are held by n1", True, "")
