"""The agent's doors to Ray, and the scaler's, over the fake head. Raylets outlive the agent."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

from gpuherd import slots
from gpuherd.errors import HeadUnreachable
from gpuherd.names import ClusterName, NodeName, PoolName, RayNodeId
from gpuherd.ray import ClusterSight, DrainAnswer, DrainOutcome, HeadVersions, RayNode
from gpuherd_agent.doors import DrainOrder, JoinFailed, JoinOrder, Raylet, Worker
from gpuherd_agent.ground import Ground
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_sim.ray_fake.head import NOT_IDLE, FakeHead
from gpuherd_sim.ray_fake.raylet import RayletProcess, next_pid

T = TypeVar("T")
VERSIONS = HeadVersions(ray="2.60.0", python="3.11.7")
_TICKS_PER_S = 100
_KNOCK_S = 0.001


class FakeRaylets:
    """``gpuherd_agent.doors.RayletDoor`` of one host."""

    def __init__(self, head: FakeHead, *, boot_id: str) -> None:
        self.boot_id = boot_id
        self.fails: JoinFailed | None = None
        """Set to make every start fail with it."""
        self.installed: HeadVersions | None = VERSIONS
        """None = Ray is not installed."""
        self._head = head
        self._made: list[RayletProcess] = []
        self._starts: list[asyncio.Task[Raylet]] = []

    def versions(self) -> HeadVersions:
        """Return what is installed; raises JoinFailed (RAY_MISSING)."""
        if self.installed is None:
            raise JoinFailed(JoinRefusal.RAY_MISSING, "ray is not installed")
        return self.installed

    def ground(self) -> Ground:
        """Return a host on which nothing is in the way."""
        return Ground()

    async def find(self, remembered: Raylet | None) -> Raylet | None:
        """Return the raylet that runs here or that an earlier agent's start is about to bring up."""
        under_way = [start for start in self._starts if not start.done()]
        if under_way:
            await asyncio.wait(under_way)
        running = [self._described(r) for r in self.processes()]
        if remembered in running:
            return remembered
        return running[0] if running else None

    async def start(self, order: JoinOrder) -> Raylet:
        """Start a raylet; the start goes on without us when the agent dies in it."""
        self._head.journal.add("raylet.ordered", order.node, node_id=order.node_id, gpus=",".join(order.gpus))
        start = _in_world(self._head, self._start(order))
        self._starts = [s for s in self._starts if not s.done()] + [start]
        return await start

    async def _start(self, order: JoinOrder) -> Raylet:
        head, timing = self._head, self._head.timing
        if self.fails is not None:
            await asyncio.sleep(timing.spawn_s)
            raise self.fails
        if not head.is_up:
            await asyncio.sleep(timing.call_timeout_s)
            raise JoinFailed(JoinRefusal.HEAD_UNREACHABLE, "connection refused")
        await asyncio.sleep(timing.spawn_s)
        process = RayletProcess(
            node=order.node,
            node_id=order.node_id,
            pid=next_pid(),
            total={"CPU": 8.0, "GPU": float(len(order.gpus))},
            labels=dict(order.labels),
            offered=order.gpus,
        )
        head.raylets.append(process)
        self._made.append(process)
        head.journal.add(
            "raylet.started", order.node, node_id=order.node_id, pid=process.pid, gpus=",".join(order.gpus)
        )
        head.later(timing.join_s - timing.spawn_s, head.register, process)
        return self._described(process)

    def is_alive(self, raylet: Raylet) -> bool:
        """Say whether exactly this process runs; a stopped one does."""
        return self._process(raylet) is not None

    async def stop(self, raylet: Raylet, *, grace_s: float) -> bool:
        """TERM, then KILL after the grace; False = it is stuck."""
        process = self._process(raylet)
        if process is None:
            return True
        if process.is_stuck or process.is_stopped:
            await asyncio.sleep(grace_s)
        if process.is_stuck:
            return False
        if process.is_stopped:
            self._head.kill_raylet(process, cause="killed by the agent")
        else:
            self._head.end_raylet(process, cause="stopped by the agent")
            await asyncio.sleep(self._head.timing.term_exit_s)
        return True

    def work(self, raylet: Raylet) -> tuple[Worker, ...] | None:
        """Return a worker of its own for each task that runs, as tasks on GPUs have."""
        process = self._process(raylet)
        if process is None:
            return ()
        return tuple(
            Worker(pid=number, started_boot_s=0.0, title="ray::task") for number in sorted(process.running)
        )

    def owns(self, raylet: Raylet, pid: int) -> bool:
        """Say whether the pid is the raylet's own: simulated workers have none."""
        return raylet.pid == pid

    def processes(self) -> tuple[RayletProcess, ...]:
        """Return the raylets that run on this host, in the world's truth."""
        self._made = [r for r in self._made if not r.is_gone]
        return tuple(self._made)

    def _process(self, raylet: Raylet) -> RayletProcess | None:
        if raylet.boot_id != self.boot_id:
            return None
        return next((r for r in self.processes() if r.pid == raylet.pid), None)

    def _described(self, process: RayletProcess) -> Raylet:
        return Raylet(
            pid=process.pid,
            started_ticks=process.pid * _TICKS_PER_S,
            boot_id=self.boot_id,
            node_id=process.node_id,
            session_pid=process.pid - 1,
            gpus=int(process.total.get("GPU", 0.0)),
            head="head:6379",
            offered=process.offered,
        )


class FakeHeads:
    """``gpuherd_agent.doors.HeadDoor`` of one node: each call is a helper process of its own."""

    def __init__(self, head: FakeHead, node: NodeName, *, cluster: ClusterName) -> None:
        self.helper_survives = True
        """False = a killed agent takes its helper along."""
        self.is_cut = False
        """True = this host cannot reach the head."""
        self._head = head
        self._node = node
        self._cluster = cluster

    async def versions(self, head: str) -> HeadVersions:
        """Return what the head runs; raises HeadUnreachable."""
        del head
        await self._call(self._head.timing.rpc_s)
        return HeadVersions(ray=VERSIONS.ray, python=VERSIONS.python, session=self._head.session)

    async def knock(self, head: str) -> bool:
        """Say whether the head is up and this host reaches it."""
        del head
        await asyncio.sleep(_KNOCK_S)
        return self._head.is_up and not self.is_cut

    async def node(self, head: str, node_id: RayNodeId) -> RayNode | None:
        """Return the node as the head tells it; raises HeadUnreachable."""
        del head
        await self._call(self._head.timing.rpc_s)
        return self._head.node(node_id)

    async def drain(self, order: DrainOrder) -> DrainAnswer:
        """Win a slot if asked to, then drain."""
        if self.helper_survives:
            return await _in_world(self._head, self._drain(order))
        return await self._drain(order)

    async def release(self, head: str, pool: PoolName) -> bool:
        """Free this node's slots; False = not reachable."""
        del head
        try:
            keys = await self._slot_keys(pool)
            for slot, value in keys.items():
                if value == self._node:
                    await self._put(pool, slot, slots.RELEASED, overwrite=True)
                    self._head.journal.add("slot.released", self._node, pool=pool, k=slot.k)
        except HeadUnreachable:
            return False
        return True

    async def _drain(self, order: DrainOrder) -> DrainAnswer:
        try:
            await self._call(self._head.timing.rpc_s)
            listed = self._head.node(order.node_id)
            if listed is None or not listed.is_alive:
                return DrainAnswer(
                    outcome=DrainOutcome.NOT_ALIVE, message="the head does not list it as alive"
                )
            if order.pool is not None:
                full = await self._claim(order.pool, order.budget)
                if full:
                    return DrainAnswer(outcome=DrainOutcome.NO_SLOT, message=full)
        except HeadUnreachable as error:
            return DrainAnswer(outcome=DrainOutcome.UNREACHABLE, message=str(error))
        return await self._ask(order)

    async def _ask(self, order: DrainOrder) -> DrainAnswer:
        head = self._head
        try:
            await self._call(head.timing.rpc_s)
        except HeadUnreachable as error:
            return DrainAnswer(outcome=DrainOutcome.UNKNOWN, message=str(error))
        head.journal.add(
            "drain.asked",
            self._node,
            node_id=order.node_id,
            reason=order.reason.value,
            pool=order.pool,
        )
        taken = head.drain(order.node_id, order.reason, order.deadline_s, order.message)
        head.reached("drain_sent", self._node)
        if taken is None:
            await asyncio.sleep(head.timing.call_timeout_s)
            return DrainAnswer(outcome=DrainOutcome.UNKNOWN, message="no answer in time")
        if not taken:
            return DrainAnswer(outcome=DrainOutcome.REJECTED, message=NOT_IDLE)
        return DrainAnswer(outcome=DrainOutcome.ACCEPTED)

    async def _claim(self, pool: PoolName, budget: int) -> str:
        """Win a slot, or return who holds them all."""
        while True:
            match slots.choose(await self._slot_keys(pool), self._node, budget):
                case slots.Held():
                    return ""
                case slots.Full(holders=holders):
                    return f"all {budget} slots of {pool} are held by {', '.join(holders)}"
                case slots.Free(slot=slot):
                    if await self._put(pool, slot, self._node, overwrite=False):
                        self._head.journal.add("slot.claimed", self._node, pool=pool, k=slot.k, n=slot.n)
                        self._head.reached("slot_claimed", self._node)
                        return ""

    async def _slot_keys(self, pool: PoolName) -> dict[slots.Slot, str]:
        await self._call(self._head.timing.kv_s)
        found = self._head.keys.under(slots.NAMESPACE, slots.prefix(self._cluster, pool).encode())
        named = ((slots.parse_key(key.decode()), value.decode()) for key, value in found.items())
        return {slot: value for slot, value in named if slot is not None}

    async def _put(self, pool: PoolName, slot: slots.Slot, value: str, *, overwrite: bool) -> bool:
        await self._call(self._head.timing.kv_s)
        key = slots.key(self._cluster, pool, slot).encode()
        return self._head.keys.put(slots.NAMESPACE, key, value.encode(), overwrite=overwrite)

    async def _call(self, latency_s: float) -> None:
        await asyncio.sleep(latency_s)
        if self.is_cut or not self._head.is_up:
            await asyncio.sleep(self._head.timing.call_timeout_s)
            raise HeadUnreachable("no answer from the head")


class FakeSight:
    """What the scaler reads of the head, and its key-value store, as ``gpuherd.shell.gcs.Gcs`` has them."""

    def __init__(self, head: FakeHead) -> None:
        self.is_cut = False
        self._head = head

    async def sight(self) -> ClusterSight:
        """Return the cluster as the head tells it; raises HeadUnreachable."""
        await self._call(self._head.timing.rpc_s)
        return self._head.sight()

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        """Return all keys that start so, sorted; raises HeadUnreachable, as the others below."""
        await self._call(self._head.timing.kv_s)
        return tuple(sorted(k.decode() for k in self._head.keys.under(slots.NAMESPACE, prefix.encode())))

    async def kv_get(self, key: str) -> bytes | None:
        """Return a value, None when the key does not exist."""
        await self._call(self._head.timing.kv_s)
        return self._head.keys.get(slots.NAMESPACE, key.encode())

    async def kv_create(self, key: str, value: bytes) -> bool:
        """Create a key; False when it exists already."""
        await self._call(self._head.timing.kv_s)
        return self._head.keys.put(slots.NAMESPACE, key.encode(), value, overwrite=False)

    async def kv_put(self, key: str, value: bytes) -> None:
        """Set a key, new or not."""
        await self._call(self._head.timing.kv_s)
        self._head.keys.put(slots.NAMESPACE, key.encode(), value, overwrite=True)

    async def _call(self, latency_s: float) -> None:
        await asyncio.sleep(latency_s)
        if self.is_cut or not self._head.is_up:
            await asyncio.sleep(self._head.timing.call_timeout_s)
            raise HeadUnreachable("no answer from the head")


def _in_world(head: FakeHead, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run work that a killed agent does not take along."""
    return head.loop.create_task(work, context=contextvars.Context())
