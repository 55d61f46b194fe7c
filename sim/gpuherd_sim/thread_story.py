"""The main thread as one story: queue, join, work, sick GPU, drain, replacement, empty queue, idle drain.

While it plays, one process may be killed in one phase; it comes back a few seconds later.
"""

import asyncio
import contextvars
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpuherd import holds
from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.wire import topics
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Desired
from gpuherd_agent.memory import NodeMemory
from gpuherd_sim.fleet import CLUSTER, Fleet, FleetSpec
from gpuherd_sim.record import Record
from gpuherd_sim.virtual_time import VirtualLoop

SPEC: Final = FleetSpec(nodes=4, gpus=2, min=1, max=3)
TASKS: Final = 14
TASK_S: Final = 12.0
BACK_AFTER_S: Final = 5.0
PATIENCE_S: Final = 900.0
CALM_S: Final = 40.0
MIDST_S: Final = 1.0
_GLANCE_S: Final = 0.05


class Moment(enum.StrEnum):
    """Phases of the thread in which something may be killed."""

    SERVING_IDLE = "serving idle"
    QUEUE_SEEN = "queue seen"
    JOINING = "joining"
    SERVING_BUSY = "serving busy"
    SICK_CONFIRMED = "sick confirmed"
    SLOT_CLAIMED = "slot claimed"
    DRAINING = "draining"
    LEAVING = "leaving"
    REPLACED = "replaced"
    IDLE_DRAIN = "idle drain"


class Victim(enum.StrEnum):
    """What may be killed."""

    AGENT = "agent"
    AGENT_WITH_HELPER = "agent with helper"
    SCALER = "scaler"
    BROKER = "broker"
    HEAD = "head"
    HEAD_WITHOUT_STORAGE = "head without storage"
    RAYLET = "raylet"
    PROBE = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Kill ``victim`` when ``moment`` has come."""

    victim: Victim
    moment: Moment


class ThreadStory:
    """Plays the thread once, with one kill."""

    def __init__(self, loop: VirtualLoop, cell: Cell | None = None) -> None:
        self.fleet = Fleet(loop, SPEC)
        self.cell = cell
        self.killed_at: float | None = None
        """When the kill was done; None = its moment never came."""
        self._loop = loop
        self._sick: NodeName | None = None
        if cell is not None and cell.victim is Victim.AGENT_WITH_HELPER:
            for host in self.fleet.hosts.values():
                host.heads.helper_survives = False
        self.fleet.head.at_point.append(self._at_point)
        self.fleet.broker.watchers.append(self._published)
        for name, host in self.fleet.hosts.items():
            host.disk.on_keep.append(functools.partial(self._kept, name))

    async def play(self) -> Record:
        """Play to the end and return the record; raises NeverCame when the thread breaks off."""
        fleet = self.fleet
        watch = self._loop.create_task(self._watch(), context=contextvars.Context())
        fleet.start_agents()
        fleet.start_scaler()
        await fleet.until("one serves", lambda: self._members() >= 1, within_s=PATIENCE_S)
        await asyncio.sleep(CALM_S)
        fleet.head.work.submit(TASKS, duration_s=TASK_S)
        await fleet.until("two are busy", lambda: len(self._busy()) > 1, within_s=PATIENCE_S)
        await asyncio.sleep(2.0)
        self._sick = self._busy()[0]
        fleet.hosts[self._sick].gpus.lose(0)
        await fleet.until("the sick one is out", self._sick_is_out, within_s=PATIENCE_S)
        await fleet.until("tasks done", lambda: fleet.head.work.is_finished, within_s=PATIENCE_S)
        await fleet.until("down to the minimum", lambda: self._members() <= 1, within_s=PATIENCE_S)
        await asyncio.sleep(CALM_S)
        await fleet.until("one serves still", lambda: self._members() == 1, within_s=PATIENCE_S)
        watch.cancel()
        return fleet.record()

    # What is so.

    def _members(self) -> int:
        return sum(1 for r in self.fleet.head.raylets if r.takes_work)

    def _busy(self) -> list[NodeName]:
        return sorted(r.node for r in self.fleet.head.raylets if r.is_busy and r.takes_work)

    def _sick_is_out(self) -> bool:
        return self._sick is not None and not self._serves(self._sick)

    def _subject(self) -> NodeName | None:
        """Return the node that is in the cell's moment now, None while it has not come."""
        assert self.cell is not None  # noqa: S101  only asked with one
        find: dict[Moment, Callable[[], NodeName | None]] = {
            Moment.SERVING_IDLE: lambda: next(
                (n for n in self.fleet.names if self.fleet.phase(n) is Phase.MEMBER), None
            ),
            Moment.JOINING: self._joining,
            Moment.SERVING_BUSY: lambda: next(iter(self._busy()), None),
            Moment.DRAINING: self._draining,
            Moment.LEAVING: lambda: self._sick if self._sick and self._sick_is_out() else None,
            Moment.REPLACED: self._replacement,
        }
        return find[self.cell.moment]() if self.cell.moment in find else None

    def _joining(self) -> NodeName | None:
        """Return a node in the midst of a start: ordered a while ago, and not a member yet."""
        joined = {e.detail["node_id"] for e in self.fleet.journal.of("node.joined")}
        under_way = (
            e
            for e in self.fleet.journal.of("raylet.ordered")
            if e.detail["node_id"] not in joined and self._loop.time() - e.at > MIDST_S
        )
        return next((NodeName(e.node) for e in under_way), None) if self.fleet.head.work.tasks else None

    def _draining(self) -> NodeName | None:
        """Return the sick node a while after Ray has begun to drain it."""
        begun = self.fleet.journal.of("drain.begun", node=self._sick) if self._sick else iter(())
        told = self._sick is not None and self.fleet.phase(self._sick) is Phase.DRAINING
        return self._sick if told and any(self._loop.time() - e.at > MIDST_S for e in begun) else None

    def _replacement(self) -> NodeName | None:
        """Return the node that joined first after the fault."""
        if self._sick is None:
            return None
        (fault,) = (e for e in self.fleet.journal.of("fault") if e.detail["what"] == "gpu lost")
        return next((NodeName(e.node) for e in self.fleet.journal.of("node.joined") if e.at > fault.at), None)

    # What is done.

    async def _watch(self) -> None:
        while self.cell is not None and self.killed_at is None:
            subject = self._subject()
            if subject is not None:
                self._kill(subject)
                return
            await asyncio.sleep(_GLANCE_S)

    def _at_point(self, point: str, node: NodeName) -> None:
        is_idle_drain = (
            point == "drain_sent" and self.fleet.head.work.tasks and self.fleet.head.work.is_finished
        )
        if (self._waits_for(Moment.SLOT_CLAIMED) and point == "slot_claimed") or (
            self._waits_for(Moment.IDLE_DRAIN) and is_idle_drain
        ):
            self._kill(node)

    def _published(self, topic: str, payload: bytes) -> None:
        """Kill between the scaler's order and the node that it is for."""
        place = topics.parse(topic, CLUSTER)
        if self._waits_for(Moment.QUEUE_SEEN) and self.fleet.head.work.tasks and place is not None:
            name, leaf = place
            if leaf == "desired" and decode(payload, Desired).serve and not self._serves(name):
                self._kill(name)

    def _kept(self, name: NodeName, memory: NodeMemory) -> None:
        """Kill between the node's finding and its first act upon it."""
        if self._waits_for(Moment.SICK_CONFIRMED) and any(h.owner == holds.HEALTH for h in memory.holds):
            self._kill(name)

    def _waits_for(self, moment: Moment) -> bool:
        return self.cell is not None and self.killed_at is None and self.cell.moment is moment

    def _serves(self, name: NodeName) -> bool:
        return bool(self.fleet.hosts[name].raylets.processes())

    def _kill(self, node: NodeName) -> None:
        assert self.cell is not None  # noqa: S101  only called with one
        self.killed_at = self._loop.time()
        fleet, head = self.fleet, self.fleet.head
        match self.cell.victim:
            case Victim.AGENT | Victim.AGENT_WITH_HELPER:
                fleet.kill_agent(node)
                head.later(BACK_AFTER_S, fleet.start_agent, node)
            case Victim.SCALER:
                fleet.kill_scaler()
                head.later(BACK_AFTER_S, fleet.start_scaler)
            case Victim.BROKER:
                fleet.broker.kill()
                head.later(BACK_AFTER_S, self._broker_back)
            case Victim.HEAD | Victim.HEAD_WITHOUT_STORAGE:
                head.kill()
                head.later(BACK_AFTER_S, self._head_back)
            case Victim.RAYLET:
                there = fleet.hosts[node].raylets.processes() or tuple(head.raylets)
                if there:
                    head.kill_raylet(there[0], cause="killed by a fault")
            case Victim.PROBE:
                fleet.hosts[node].probe.kill_child()

    def _broker_back(self) -> None:
        self.fleet.broker.start(empty=True)

    def _head_back(self) -> None:
        assert self.cell is not None  # noqa: S101  only called with one
        self.fleet.head.start(empty=self.cell.victim is Victim.HEAD_WITHOUT_STORAGE)
