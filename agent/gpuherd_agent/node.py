"""The node: all parts of one agent put together, and its life from start to cancellation.

The only module that knows every part; it decides nothing.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd import __version__
from gpuherd.bus import Bus
from gpuherd.health import Action, Finding
from gpuherd.phases import Phase
from gpuherd.shell.clock import Clock
from gpuherd_agent.doors import (
    ChecksDoor,
    HeadDoor,
    HooksDoor,
    Identity,
    KernelDoor,
    MountsDoor,
    PortsDoor,
    ProbeDoor,
    RayletDoor,
    SmokeDoor,
)
from gpuherd_agent.errands import Errands
from gpuherd_agent.exporter import NodeFacts
from gpuherd_agent.gate import Gate
from gpuherd_agent.gossip_record import GossipFacts
from gpuherd_agent.herald import Herald, Sources
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.recorder import Recorder
from gpuherd_agent.repair import Step
from gpuherd_agent.sensing import Left, Pace, Sensing
from gpuherd_agent.sensors.sense import Sense
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Doors, Steward
from gpuherd_agent.store import Store
from gpuherd_agent.verbs.catalog import VERBS
from gpuherd_agent.verbs.verb import Desk
from gpuherd_agent.verdict_bell import VerdictBell

STALLED_S: Final = 15.0
"""The agent counts as not live when its steward has made no step for this long."""
BLIND_S: Final = 60.0
"""... or when no look at the GPUs has ended for this long, good or bad. Above the probe's own deadlines."""


@dataclass(slots=True, kw_only=True)
class Outside:
    """Everything that the node touches; real in a daemon, simulated in ``gpuherd_sim``."""

    clock: Clock
    rng: random.Random
    probe: ProbeDoor
    raylets: RayletDoor
    heads: HeadDoor
    store: Store
    smoke: SmokeDoor | None = None
    hooks: HooksDoor | None = None
    checks: ChecksDoor | None = None
    kernel: KernelDoor | None = None
    senses: tuple[Sense, ...] = ()
    """What is looked at beside the driver within each tick."""
    ports: PortsDoor | None = None
    mounts: MountsDoor | None = None
    dcgm_compat: bool = False
    repairs: frozenset[Step] = frozenset()
    state_dir: Path | None = None
    """Where verbs put files for people; None = nowhere."""


class Node:
    """One agent. Make it, give ``presence`` to its bus, then ``run`` it."""

    def __init__(
        self, *, identity: Identity, rules: Rules, declared: int, pace: Pace, outside: Outside
    ) -> None:
        """``declared`` is how many GPUs the host is meant to have."""
        clock = outside.clock
        memory = outside.store.load()
        self._identity = identity
        self._rules = rules
        self._outside = outside
        self._started_at = clock.wall()
        self._herald: Herald | None = None
        self._errands: Errands | None = None
        self._facts: NodeFacts | None = None
        self._facts_key: object = None
        self.read_gossip: Callable[[], GossipFacts | None] = lambda: None
        """What the page says of gossip; set by whoever runs it."""
        self.sensing = Sensing(
            probe=outside.probe,
            senses=outside.senses,
            clock=clock,
            declared=declared,
            pace=pace,
            left=Left(latched=_latched(memory, identity), boards=memory.boards),
        )
        self.sensing.checks = outside.checks
        self.sensing.kernel = outside.kernel
        self.sensing.ports, self.sensing.mounts = outside.ports, outside.mounts
        self.sensing.ray_gpus = self._ray_gpus
        self._recorder = self._new_recorder(outside, declared)
        self._bell = VerdictBell(outside.hooks)
        self.steward = Steward(
            identity=identity,
            rules=rules,
            doors=Doors(
                clock=clock,
                rng=outside.rng,
                raylets=outside.raylets,
                heads=outside.heads,
                store=outside.store,
                gate=_gate(outside),
                hooks=outside.hooks,
            ),
            health=lambda: self.sensing.health,
            tell=self._tell,
        )

    def listen(self, bus: Bus, *, was_new: bool) -> Herald:
        """Let the node speak and listen on this bus; call it once, before ``run``."""
        sources = Sources(
            steward=self.steward,
            raylets=self._outside.raylets,
            clock=self._outside.clock,
            was_new=was_new,
        )
        self._herald = Herald(identity=self._identity, rules=self._rules, bus=bus, sources=sources)
        desk = Desk(
            identity=self._identity,
            rules=self._rules,
            sensing=self.sensing,
            steward=self.steward,
            clock=self._outside.clock,
            rng=self._outside.rng,
            tell=self._tell,
            state_dir=self._outside.state_dir,
            recorder=self._recorder,
            repairs=self._outside.repairs,
        )
        self._errands = Errands(bus=bus, desk=desk, verbs=VERBS)
        return self._herald

    async def run(self) -> None:
        """Run until cancelled; raises an exception group with NameTaken when the name is another's.

        The raylet is left as it is: what is running goes on without an agent.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.sensing.run(self._looked))
                group.create_task(self.steward.run())
                group.create_task(self._bell.run())
                for sensor in (self._outside.checks, self._outside.ports, self._outside.mounts):
                    if sensor is not None:
                        group.create_task(sensor.run())
                if self._herald is not None:
                    group.create_task(self._herald.run())
                if self._errands is not None:
                    group.create_task(self._errands.run())
        finally:
            if self._recorder is not None:
                self._recorder.close()

    def _new_recorder(self, outside: Outside, declared: int) -> Recorder | None:
        if outside.state_dir is None:
            return None
        return Recorder(outside.state_dir, self._identity, outside.clock, declared=declared, tell=self._tell)

    def _looked(self) -> None:
        if self._recorder is not None:
            self._recorder.take(self.sensing.health.snapshot, self.sensing.health.verdict)
        self.steward.wake()
        self._bell.ring(self.steward.verdict())
        if self._herald is not None:
            self._herald.glance()

    def _tell(self, kind: str, reason: str) -> None:
        if self._herald is not None:
            self._herald.tell(kind, reason)

    def _ray_gpus(self) -> int | None:
        raylet = self.steward.memory.raylet
        return raylet.gpus if raylet is not None and self.steward.station.phase is Phase.MEMBER else None

    def why_not_live(self) -> str:
        """Return why a restart of the agent would help, or an empty string."""
        now = self._outside.clock.now()
        idle_s, blind_s = now - self.steward.stepped_at, now - self.sensing.looked_at
        if idle_s > STALLED_S:
            return f"no step for {idle_s:.0f} s"
        return f"no look at the GPUs for {blind_s:.0f} s" if blind_s > BLIND_S else ""

    def facts(self, bus: Bus) -> NodeFacts:
        """Return what there is to export: the same object until something of it has changed."""
        steward, health, herald = self.steward, self.sensing.health, self._herald
        key = (self.sensing.ticks_total, steward.station, id(steward.memory), bus.is_connected)
        if self._facts is not None and key == self._facts_key:
            return self._facts
        self._facts_key = key
        self._facts = NodeFacts(
            cluster=self._identity.cluster,
            node=self._identity.node,
            version=__version__,
            started_at=self._started_at,
            snapshot=health.snapshot,
            verdict=health.verdict,
            phase=steward.station.phase,
            holds=steward.memory.holds,
            serve=bool(steward.memory.orders and steward.memory.orders.serve),
            wants_drain=bool(steward.station.wants_drain),
            slot_held=steward.memory.may_hold_slot and health.verdict.action >= Action.CORDON,
            broker_connected=bus.is_connected,
            head_reachable=steward.station.head_reachable,
            ticks_total=self.sensing.ticks_total,
            tick_late_total=self.sensing.late_total,
            sample_age_s=self.sensing.sample_age_s(),
            xids=tuple(self.sensing.xids.xids()),
            kernel_lines_missed=None if self._outside.kernel is None else self.sensing.xids.missed,
            dcgm_compat=self._outside.dcgm_compat,
            messages_dropped_by_reason=dict(self._dropped()),
            desired_refused_by_reason=dict(herald.desired_refused) if herald else {},
            gossip=self.read_gossip(),
        )
        return self._facts

    def _dropped(self) -> Counter[str]:
        dropped = Counter(self._herald.dropped if self._herald else ())
        dropped.update(self._errands.dropped if self._errands else ())
        return dropped


def _latched(memory: NodeMemory, identity: Identity) -> tuple[Finding, ...]:
    """Return the findings that stood before this start, within the same boot."""
    return memory.latched if memory.latched_boot_id == identity.boot_id else ()


def _gate(outside: Outside) -> Gate:
    """Return the gate before each join."""
    return Gate(
        raylets=outside.raylets,
        heads=outside.heads,
        clock=outside.clock,
        smoke=outside.smoke,
        hooks=outside.hooks,
    )
