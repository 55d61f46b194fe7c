"""The head: which nodes it believes in, what it tells of them, and what it passes on to raylets.

What it tells is as old as its last pull from the raylets; deaths that it learns of show at once.
"""

import asyncio
import contextvars
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from gpuherd.names import NodeName, RayNodeId
from gpuherd.ray import ClusterSight, DrainReason, RayNode, RayStatus, Shape
from gpuherd_sim.journal import Journal
from gpuherd_sim.ray_fake.key_values import KeyValues
from gpuherd_sim.ray_fake.raylet import RayletProcess
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.ray_fake.workload import Workload
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
    keys: KeyValues = field(default_factory=KeyValues)
    pending_view: tuple[Shape, ...] = ()


class FakeHead:
    """Ray's head with its driver's tasks. All its own doings run in the world, not in a process."""

    def __init__(self, loop: VirtualLoop, journal: Journal, timing: Timing | None = None) -> None:
        self.loop = loop
        self.journal = journal
        self.timing = timing or Timing()
        self.is_up = True
        self.work = Workload(
            journal,
            self.later,
            lease_s=self.timing.lease_s,
            open_raylets=self._open,
            on_task_over=self._task_over,
        )
        self.raylets: list[RayletProcess] = []
        self.at_point: list[Callable[[str, NodeName], None]] = []
        """Called with (point, node) at ``slot_claimed`` and ``drain_sent``: places to crash at."""
        self._sessions = itertools.count(1)
        self._belief = _Belief(session=f"session-{next(self._sessions)}")
        self._down_since = 0.0
        loop.create_task(self._pull_for_ever(), name="fake head", context=contextvars.Context())

    @property
    def session(self) -> str:
        """Return the name of the head's session."""
        return self._belief.session

    @property
    def keys(self) -> KeyValues:
        """Return the key-value store of the present session."""
        return self._belief.keys

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

    def reached(self, point: str, node: NodeName) -> None:
        """Tell whoever wants to crash something that a point was reached."""
        for call in tuple(self.at_point):
            contextvars.Context().run(call, point, node)  # of the world, not of the process that got here

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
        self.journal.add("fault", what="head restarted empty" if empty else "head restarted")
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
        self.work.place_soon()

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
        self.work.place_soon()

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
        raylet.is_stopped, raylet.stopped_at = True, self.loop.time()
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
        self.work.place_soon()

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
            self._belief.pending_view = self.work.shapes()

    def _open(self) -> list[RayletProcess]:
        """Return where tasks may go, in order of name; nowhere while the head is down."""
        return sorted((r for r in self.raylets if r.takes_work), key=lambda r: r.node) if self.is_up else []

    def _task_over(self, raylet: RayletProcess) -> None:
        if not raylet.is_busy:
            raylet.idle_since = self.loop.time()
        self._exit_if_drained(raylet)

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
            self.journal.add(
                "drain.begun", raylet.node, node_id=raylet.node_id, reason=reason.value, message=message
            )
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

    def _gone(self, raylet: RayletProcess, cause: str) -> None:
        if raylet.is_gone:
            return
        raylet.is_gone = True
        self.raylets.remove(raylet)
        self.journal.add("raylet.gone", raylet.node, node_id=raylet.node_id, pid=raylet.pid, cause=cause)
        self.work.lose(raylet, cause)

    def _unknown(self, raylet: RayletProcess) -> None:
        if raylet.node_id not in self._belief.nodes:
            self._gone(raylet, "unknown to the new head")

    def _still_hung(self, raylet: RayletProcess, stopped_at: float) -> None:
        if raylet.is_stopped and raylet.stopped_at == stopped_at and not raylet.is_gone:
            self.mark_dead(raylet, "missed health checks")

    def _still_without_head(self, raylet: RayletProcess, since: float) -> None:
        if not self.is_up and self._down_since == since:
            self._gone(raylet, "no head for too long")
