"""A whole fleet in virtual time: hosts with the shipped agent, broker, head, and handles for every fault.

It composes and breaks; what ought to follow is judged by ``invariants``.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuherd import slots
from gpuherd.errors import WireInvalid
from gpuherd.names import ClusterName, NodeName, PoolName
from gpuherd.phases import Phase
from gpuherd.wire import topics
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Desired, State
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.pools import Pool
from gpuherd_sim import agent_program, host, scaler_program
from gpuherd_sim.host import Host, Place
from gpuherd_sim.journal import Journal
from gpuherd_sim.memory_bus import Broker
from gpuherd_sim.memory_ledger import MemoryLedger
from gpuherd_sim.process import Process
from gpuherd_sim.ray_fake.doors import FakeSight
from gpuherd_sim.ray_fake.head import FakeHead
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.record import Ordered, Record, Saved
from gpuherd_sim.scaler_program import ScalerHost
from gpuherd_sim.virtual_time import VirtualClock, VirtualLoop

CLUSTER = ClusterName("herd")
POOL = PoolName("gpu")
_GLANCE_S = 0.25


class NeverCame(AssertionError):
    """What a run waited for did not come about in its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """How a fleet is made."""

    nodes: int = 3
    gpus: int = 8
    seed: int = 1
    timing: Timing = field(default_factory=Timing)
    min: int | None = None
    max: int | None = None
    idle_timeout_s: float = 30.0

    @property
    def pool(self) -> Pool:
        """Return the one pool of the fleet."""
        return Pool(
            name=POOL,
            nodes=(f"gpu-[001-{self.nodes:03d}]",),
            min=self.min,
            max=self.max,
            gpus_per_node=self.gpus,
            idle_timeout_s=self.idle_timeout_s,
            cooldown_s=1.0,
        )


class Fleet:
    """Hosts by name, and the processes that are not on a host."""

    def __init__(self, loop: VirtualLoop, spec: FleetSpec | None = None) -> None:
        self.loop = loop
        self.spec = spec or FleetSpec()
        self.journal = Journal(loop.time)
        self.head = FakeHead(loop, self.journal, self.spec.timing)
        self.broker = Broker(loop)
        self.sight = FakeSight(self.head)
        self.rng = random.Random(self.spec.seed)  # noqa: S311  repeatable, not secret
        place = Place(loop=loop, journal=self.journal, head=self.head, cluster=CLUSTER, pool=POOL)
        pool = self.spec.pool
        self.hosts: dict[NodeName, Host] = {
            name: host.make(name, place, gpus=self.spec.gpus, seed=self.spec.seed) for name in pool.names
        }
        self.scaler_host = ScalerHost(
            cluster=CLUSTER,
            limits=Limits(pools=(pool,)),
            broker=self.broker,
            sight=self.sight,
            clock=VirtualClock(loop),
            rng=random.Random(f"{self.spec.seed}/scaler"),  # noqa: S311  repeatable, not secret
            ledger=MemoryLedger(),
        )
        self.scaler: Process | None = None
        self._ordered: list[Ordered] = []
        self._states: dict[NodeName, State] = {}
        self.broker.watchers.append(self._watch)

    @property
    def names(self) -> tuple[NodeName, ...]:
        """Return the names of all hosts."""
        return tuple(self.hosts)

    # Processes.

    def start_agents(self) -> None:
        """Start the agent of every host."""
        for name in self.hosts:
            self.start_agent(name)

    def start_agent(self, name: NodeName) -> None:
        """Start a host's agent anew; nothing when one runs."""
        there = self.hosts[name]
        if not there.agent_runs:
            self.journal.add("process.started", name, what="agent")
            there.agent = Process(self.loop, f"agent {name}", agent_program.program(there, self.broker))

    def kill_agent(self, name: NodeName) -> None:
        """Kill a host's agent between two of its steps; its raylet goes on."""
        there = self.hosts[name]
        if there.agent is not None and there.agent_runs:
            self.journal.add("process.killed", name, what="agent")
            there.agent.kill()

    def reboot(self, name: NodeName) -> None:
        """Reboot a host: everything on it ends, and its agent starts in another boot."""
        there = self.hosts[name]
        self.kill_agent(name)
        for raylet in there.raylets.processes():
            self.head.kill_raylet(raylet, cause="host rebooted")
        there.boot_id = there.raylets.boot_id = f"boot-{int(there.boot_id.removeprefix('boot-')) + 1}"
        self.journal.add("fault", name, what="reboot", boot_id=there.boot_id)
        self.start_agent(name)

    def start_scaler(self) -> None:
        """Start the scaler anew; nothing when one runs."""
        if self.scaler is None or not self.scaler.is_running:
            self.journal.add("process.started", what="scaler")
            self.scaler = Process(self.loop, "scaler", scaler_program.program(self.scaler_host))

    def kill_scaler(self) -> None:
        """Kill the scaler between two of its steps."""
        if self.scaler is not None and self.scaler.is_running:
            self.journal.add("process.killed", what="scaler")
            self.scaler.kill()

    # What there is to see.

    def state(self, name: NodeName) -> State | None:
        """Return the node's newest state document."""
        return self._states.get(name)

    def phase(self, name: NodeName) -> Phase | None:
        """Return the phase that the node tells."""
        state = self.state(name)
        return state.phase if state else None

    async def until(self, what: str, so: Callable[[], bool], *, within_s: float) -> float:
        """Wait until something is so and return how long it took; raises NeverCame."""
        began = self.loop.time()
        while not so():
            if self.loop.time() - began > within_s:
                raise NeverCame(f"{what}: not within {within_s:g} s; {self.describe()}")
            await asyncio.sleep(_GLANCE_S)
        return self.loop.time() - began

    async def until_phase(self, name: NodeName, *phases: Phase, within_s: float) -> float:
        """Wait until the node tells one of these phases."""
        wanted = " or ".join(phases)
        return await self.until(f"{name} {wanted}", lambda: self.phase(name) in phases, within_s=within_s)

    def describe(self) -> str:
        """Return one line about each node, for a failure's message."""
        told = (f"{n}: {s.phase.value} ({s.reason})" for n, s in sorted(self._states.items()))
        return f"at {self.loop.time():.1f} s " + "; ".join(told)

    def record(self) -> Record:
        """Return the run so far as a value."""
        saved = [
            Saved(at=at, node=name, memory=memory)
            for name, there in self.hosts.items()
            for at, memory in there.disk.history
        ]
        tasks = self.head.work.tasks
        return Record(
            entries=tuple(self.journal.entries),
            saved=tuple(sorted(saved, key=lambda s: s.at)),
            ordered=tuple(self._ordered),
            states=dict(self._states),
            unfinished=sum(1 for task in tasks if not task.is_finished),
            submitted=len(tasks),
            budgets={POOL: slots.budget(len(self.hosts))},
        )

    def _watch(self, topic: str, payload: bytes) -> None:
        place = topics.parse(topic, CLUSTER)
        if place is None:
            return
        name, leaf = place
        try:
            if leaf == "state":
                self._states[name] = decode(payload, State)
            elif leaf == "desired":
                serve = decode(payload, Desired).serve
                self._ordered.append(Ordered(at=self.loop.time(), node=name, serve=serve))
        except WireInvalid:
            return  # garbage is part of some runs
