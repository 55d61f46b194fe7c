"""The head: which nodes it believes in, what it tells of them, where tasks go, and the key-value store.

What it tells is as old as its last pull from the raylets; deaths that it learns of show at once.
"""

import asyncio
import contextvars
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpuherd.names import NodeName, RayNodeId
from gpuherd.ray import ClusterSight, DrainReason, RayNode, RayStatus, Shape
from gpuherd_sim.journal import Journal
from gpuherd_sim.ray_fake.raylet import RayletProcess, Task
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.virtual_time import VirtualLoop

NOT_IDLE: Final = "The node to be idle terminated is no longer idle."


@dataclass(slots=True, kw_only=True)
class _Listed:
    """A node as the head has it: ``view`` is what it tells, from its last pull."""

    raylet: RayletProcess
    view: RayNode
    is_dead: bool = False


@dataclass(slots=True, kw_only=True)
class _Belief:
    """All that a head without storage loses in a restart."""

    session: str
    nodes: dict[RayNodeId, _Listed] = field(default_factory=dict)
    keys: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)
    pending_view: tuple[Shape, ...] = ()


class FakeHead:
    """Ray's head with its driver's tasks. All its own doings run in the world, not in a process."""

    def __init__(self, loop: VirtualLoop, journal: Journal, timing: Timing | None = None) -> None:
        self.loop = loop
        self.journal = journal
        self.timing = timing or Timing()
        self.is_up = True
        self.tasks: list[Task] = []
        self.raylets: list[RayletProcess] = []
        self.at_point: list[Callable[[str, NodeName], None]] = []
        """Called with (point, node) at ``slot_claimed`` and ``drain_sent``: places to crash at."""
        self._sessions = itertools.count(1)
        self._belief = _Belief(session=f"session-{next(self._sessions)}")
        self._pending: list[Task] = []
        self._placing = False
        self._down_since = 0.0
        loop.create_task(self._pull_for_ever(), name="fake head", context=contextvars.Context())

    @property
    def session(self) -> str:
        """Return the name of the head's session."""
        return self._belief.session

    # What programs ask of the head. Callers have checked that it is up.

    def sight(self) -> ClusterSight:
        """Return what the head tells of the cluster now."""
        nodes = tuple(self._told(listed) for listed in self._belief.nodes.values())
        return ClusterSight(session=self.session, nodes=nodes, pending=self._belief.pending_view)

    def node(self, node_id: RayNodeId) -> RayNode | None:
        """Return one node as the head tells it."""
        listed = self._belief.nodes.get(node_id)
        return None if listed is None else self._told(listed)

    def drain(
        self, node_id: RayNodeId, reason: DrainReason, deadline_s: float | None, message: str
    ) -> bool | None:
        """Ask for a drain; None = the raylet did not answer, and will act on it when it goes on.

        Ray takes the drain of a node that is dead or was never there; so does this.
        """
        listed = self._belief.nodes.get(node_id)
        if listed is None or listed.is_dead or listed.raylet.is_gone:
            return True
        if listed.raylet.is_stopped:
            listed.raylet.calls.append((reason, deadline_s, message))
            return None
        return self._drain_now(listed.raylet, reason, deadline_s, message)

    def put(self, namespace: bytes, key: bytes, value: bytes, *, overwrite: bool) -> bool:
        """Store a value; False = the key was there and ``overwrite`` is not set. Atomic."""
        if not overwrite and (namespace, key) in self._belief.keys:
            return False
        self._belief.keys[namespace, key] = value
        return True

    def get(self, namespace: bytes, key: bytes) -> bytes | None:
        """Return a stored value."""
        return self._belief.keys.get((namespace, key))

    def keys(self, namespace: bytes, prefix: bytes) -> dict[bytes, bytes]:
        """Return the stored values under a prefix."""
        return {
            key: value
            for (space, key), value in self._belief.keys.items()
            if space == namespace and key.startswith(prefix)
        }

    def reached(self, point: str, node: NodeName) -> None:
        """Tell whoever wants to crash something that a point was reached."""
        for call in tuple(self.at_point):
            call(point, node)

    # What the driver does.

    def submit(
        self, count: int, *, duration_s: float, resources: Mapping[str, float] | None = None
    ) -> list[Task]:
        """Submit tasks that need ``resources`` (one GPU by default) for ``duration_s`` each."""
        made = [
            Task(number=len(self.tasks) + i, resources=resources or {"GPU": 1.0}, duration_s=duration_s)
            for i in range(count)
        ]
        self.tasks.extend(made)
        self._pending.extend(made)
        self._place_soon()
        return made

    # Faults.

    def kill(self) -> None:
        """The head dies: nobody answers; raylets and the tasks on them go on."""
        if self.is_up:
            self.is_up = False
            self.journal.add("fault", what="head killed")
            for raylet in self.raylets:
                self.later(
                    self.timing.reconnect_timeout_s, self._still_without_head, raylet, self.loop.time()
                )
        self._down_since = self.loop.time()

    def start(self, *, empty: bool) -> None:
        """The head comes back; without storage it knows nobody, and raylets of the old session end."""
        self.is_up = True
        self.journal.add("fault", what="head restarted", empty=empty)
        if empty:
            self._belief = _Belief(session=f"session-{next(self._sessions)}")
            for raylet in self.raylets:
                if raylet.is_registered and not raylet.is_gone:
                    self.later(self.timing.unknown_exit_s, self._unknown, raylet)
        for listed in self._belief.nodes.values():
            if listed.raylet.is_gone and not listed.is_dead:
                self.later(
                    self.timing.dead_after_kill_s, self.mark_dead, listed.raylet, "missed health checks"
                )
        self._place_soon()

    # What raylets tell.

    def register(self, raylet: RayletProcess) -> None:
        """Take a new raylet in, or try again while the head is down."""
        if raylet.is_gone:
            return
        if not self.is_up or raylet.is_stopped:
            self.later(1.0, self.register, raylet)
            return
        raylet.is_registered = True
        raylet.session = self.session
        raylet.idle_since = self.loop.time()
        self._belief.nodes[raylet.node_id] = _Listed(raylet=raylet, view=self._look(raylet))
        self.journal.add(
            "node.joined", raylet.node, node_id=raylet.node_id, gpus=raylet.total.get("GPU", 0.0)
        )
        self._place_soon()

    def kill_raylet(self, raylet: RayletProcess, *, cause: str) -> None:
        """End a raylet at once with what runs on it; the head finds out by its health check."""
        if not raylet.is_gone:
            self._gone(raylet, cause)
            self.later(self.timing.dead_after_kill_s, self.mark_dead, raylet, "missed health checks")

    def end_raylet(self, raylet: RayletProcess, *, cause: str) -> None:
        """End a raylet that says goodbye to the head."""
        if not raylet.is_gone:
            self._gone(raylet, cause)
            self.later(self.timing.term_dead_s, self.mark_dead, raylet, cause)

    def stop_raylet(self, raylet: RayletProcess) -> None:
        """SIGSTOP: it answers nobody; what its workers run goes on."""
        raylet.is_stopped = True
        self.journal.add("fault", raylet.node, what="raylet stopped")
        self.later(self.timing.dead_after_hang_s, self._still_hung, raylet, self.loop.time())

    def resume_raylet(self, raylet: RayletProcess) -> None:
        """SIGCONT: it carries out what was asked of it meanwhile, unless it is counted as dead."""
        if raylet.is_gone or not raylet.is_stopped:
            return
        raylet.is_stopped = False
        self.journal.add("fault", raylet.node, what="raylet resumed")
        listed = self._belief.nodes.get(raylet.node_id)
        if listed is not None and listed.is_dead:
            self.later(self.timing.resumed_suicide_s, self._gone, raylet, "mistakenly been marked as dead")
            return
        calls, raylet.calls = raylet.calls, []
        for reason, deadline_s, message in calls:
            self._drain_now(raylet, reason, deadline_s, message)
        self._place_soon()

    def mark_dead(self, raylet: RayletProcess, why: str) -> None:
        """Count a node as dead, if the head is up to notice."""
        listed = self._belief.nodes.get(raylet.node_id)
        if self.is_up and listed is not None and not listed.is_dead:
            listed.is_dead = True
            self.journal.add("node.dead", raylet.node, node_id=raylet.node_id, why=why)

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> None:
        """Do something in the world after a while."""
        self.loop.call_later(delay_s, call, *args, context=contextvars.Context())

    # Inside.

    async def _pull_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.timing.refresh_s)
            if not self.is_up:
                continue
            for listed in self._belief.nodes.values():
                if not (listed.is_dead or listed.raylet.is_gone or listed.raylet.is_stopped):
                    listed.view = self._look(listed.raylet)
            shapes = Counter(tuple(sorted(task.resources.items())) for task in self._pending)
            self._belief.pending_view = tuple(Shape(resources=r, count=n) for r, n in sorted(shapes.items()))

    def _look(self, raylet: RayletProcess) -> RayNode:
        working = RayStatus.RUNNING if raylet.is_busy else RayStatus.IDLE
        return RayNode(
            id=raylet.node_id,
            name=raylet.node,
            status=working if raylet.drain_reason is None else RayStatus.DRAINING,
            total=raylet.total,
            available=raylet.available(),
            idle_s=0.0 if raylet.is_busy else self.loop.time() - raylet.idle_since,
            activity=("Resource: GPU currently in use.",) if raylet.is_busy else (),
            labels=raylet.labels,
        )

    def _told(self, listed: _Listed) -> RayNode:
        return replace(listed.view, status=RayStatus.DEAD) if listed.is_dead else listed.view

    def _drain_now(
        self, raylet: RayletProcess, reason: DrainReason, deadline_s: float | None, message: str
    ) -> bool:
        taken = raylet.answer_drain(reason, deadline_s, message)
        if taken:
            self.journal.add("drain.begun", raylet.node, reason=reason.value, message=message)
            self._exit_if_drained(raylet)
        return taken

    def _exit_if_drained(self, raylet: RayletProcess) -> None:
        if raylet.drain_reason is not None and not raylet.is_busy:
            self.later(self.timing.drained_exit_s, self._drained, raylet)

    def _drained(self, raylet: RayletProcess) -> None:
        if raylet.is_gone or raylet.is_busy:
            return
        if raylet.is_stopped:
            self.later(self.timing.refresh_s, self._drained, raylet)
            return
        self.end_raylet(raylet, cause="drained")

    def _place_soon(self) -> None:
        if not self._placing:
            self._placing = True
            self.later(self.timing.lease_s, self._place)

    def _place(self) -> None:
        self._placing = False
        if not self.is_up:
            return
        open_raylets = sorted((r for r in self.raylets if r.takes_work), key=lambda r: r.node)
        hopeless: set[tuple[tuple[str, float], ...]] = set()
        waiting, self._pending = self._pending, []
        for task in waiting:
            shape = tuple(sorted(task.resources.items()))
            chosen = (
                None if shape in hopeless else next((r for r in open_raylets if r.fits(task.resources)), None)
            )
            if chosen is None:
                hopeless.add(shape)
                self._pending.append(task)
            else:
                self._lease(task, chosen)

    def _lease(self, task: Task, raylet: RayletProcess) -> None:
        task.attempts += 1
        task.node = raylet.node
        raylet.running[task.number] = task
        self.journal.add("task.started", raylet.node, task=task.number)
        self.later(task.duration_s, self._task_over, task, task.attempts, raylet)

    def _task_over(self, task: Task, attempt: int, raylet: RayletProcess) -> None:
        if task.attempts != attempt or task.number not in raylet.running:
            return
        del raylet.running[task.number]
        task.is_finished = True
        self.journal.add("task.finished", raylet.node, task=task.number)
        if not raylet.is_busy:
            raylet.idle_since = self.loop.time()
        self._exit_if_drained(raylet)
        self._place_soon()

    def _gone(self, raylet: RayletProcess, cause: str) -> None:
        if raylet.is_gone:
            return
        raylet.is_gone = True
        self.raylets.remove(raylet)
        self.journal.add("raylet.gone", raylet.node, node_id=raylet.node_id, pid=raylet.pid, cause=cause)
        for task in raylet.running.values():
            self.journal.add("task.lost", raylet.node, task=task.number, cause=cause)
            self._pending.append(task)
        raylet.running.clear()
        self._place_soon()

    def _unknown(self, raylet: RayletProcess) -> None:
        if raylet.node_id not in self._belief.nodes:
            self._gone(raylet, "unknown to the new head")

    def _still_hung(self, raylet: RayletProcess, stopped_at: float) -> None:
        del stopped_at
        if raylet.is_stopped and not raylet.is_gone:
            self.mark_dead(raylet, "missed health checks")

    def _still_without_head(self, raylet: RayletProcess, since: float) -> None:
        if not self.is_up and self._down_since == since:
            self._gone(raylet, "no head for too long")
