"""The main thread as one story: queue, join, work, sick GPU, drain, replacement, empty queue, idle drain.

While it plays, one process may be killed in one phase; it comes back a few seconds later.
"""

import asyncio
import contextvars
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.ray import DrainReason
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.record import Record
from gpuherd_sim.virtual_time import VirtualLoop

SPEC: Final = FleetSpec(nodes=4, gpus=2, min=1, max=3)
TASKS: Final = 14
TASK_S: Final = 12.0
BACK_AFTER_S: Final = 5.0
PATIENCE_S: Final = 900.0
CALM_S: Final = 40.0
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
        return self._sick is not None and not self.fleet.hosts[self._sick].raylets.processes()

    def _subject(self) -> NodeName | None:
        """Return the node that is in the cell's moment now, None while it has not come."""
        assert self.cell is not None  # noqa: S101  only asked with one
        find: dict[Moment, Callable[[], NodeName | None]] = {
            Moment.SERVING_IDLE: lambda: self._in_phase(Phase.MEMBER),
            Moment.QUEUE_SEEN: self._newly_asked,
            Moment.JOINING: lambda: self._in_phase(Phase.JOINING) if self.fleet.head.work.tasks else None,
            Moment.SERVING_BUSY: lambda: next(iter(self._busy()), None),
            Moment.SICK_CONFIRMED: self._known_sick,
            Moment.DRAINING: lambda: self._in_phase(Phase.DRAINING, only=self._sick),
            Moment.LEAVING: lambda: self._sick if self._sick and self._sick_is_out() else None,
            Moment.REPLACED: self._replacement,
        }
        return find[self.cell.moment]() if self.cell.moment in find else None

    def _in_phase(self, phase: Phase, only: NodeName | None = None) -> NodeName | None:
        names = self.fleet.names if only is None else (only,)
        return next((n for n in names if self.fleet.phase(n) is phase), None)

    def _newly_asked(self) -> NodeName | None:
        if not self.fleet.head.work.tasks:
            return None
        asked = (o.node for o in self.fleet.record().ordered if o.serve)
        return next((n for n in asked if not self.fleet.hosts[n].raylets.processes()), None)

    def _known_sick(self) -> NodeName | None:
        state = self.fleet.state(self._sick) if self._sick else None
        return self._sick if state is not None and state.holds else None

    def _replacement(self) -> NodeName | None:
        joined = [e for e in self.fleet.journal.of("node.joined", "fault") if e.detail.get("what") != "x"]
        since = next((i for i, e in enumerate(joined) if e.detail.get("what") == "gpu lost"), len(joined))
        return next((NodeName(e.node) for e in joined[since:] if e.kind == "node.joined"), None)

    # What is done.

    async def _watch(self) -> None:
        while self.cell is not None and self.killed_at is None:
            subject = self._subject()
            if subject is not None:
                self._kill(subject)
                return
            await asyncio.sleep(_GLANCE_S)

    def _at_point(self, point: str, node: NodeName) -> None:
        if self.cell is None or self.killed_at is not None:
            return
        is_idle_drain = (
            point == "drain_sent"
            and self.fleet.head.work.is_finished
            and bool(self.fleet.head.work.tasks)
            and any(
                e.detail["reason"] == DrainReason.IDLE_TERMINATION.value
                for e in self.fleet.journal.of("drain.asked", node=node)
            )
        )
        if (self.cell.moment is Moment.SLOT_CLAIMED and point == "slot_claimed") or (
            self.cell.moment is Moment.IDLE_DRAIN and is_idle_drain
        ):
            self._kill(node)

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
