"""One simulated host: its clock, GPUs, disk and doors. The agent on it comes and goes; these stay."""

import random
from dataclasses import dataclass, field

from gpuherd.names import ClusterName, NodeName, PoolName
from gpuherd_agent.doors import HooksDoor
from gpuherd_agent.shrink import MIN_RATIO
from gpuherd_sim.disk import Disk
from gpuherd_sim.fake_host import FakeGpus, FakeHostSigns, FakeProbe
from gpuherd_sim.journal import Journal
from gpuherd_sim.memory_bus import MemoryBus
from gpuherd_sim.process import Process
from gpuherd_sim.ray_fake.doors import FakeHeads, FakeRaylets
from gpuherd_sim.ray_fake.head import FakeHead
from gpuherd_sim.virtual_time import VirtualClock, VirtualLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a host stands: its cluster's one loop, journal and head."""

    loop: VirtualLoop
    journal: Journal
    head: FakeHead
    cluster: ClusterName
    pool: PoolName


@dataclass(slots=True, kw_only=True, eq=False)
class Host:
    """A host; ``agent`` is the present life of its agent, ``bus`` that life's link to the broker."""

    name: NodeName
    place: Place
    gpus: FakeGpus
    clock: VirtualClock
    disk: Disk
    probe: FakeProbe
    raylets: FakeRaylets
    heads: FakeHeads
    rng: random.Random
    signs: FakeHostSigns = field(default_factory=FakeHostSigns)
    boot_id: str = "boot-1"
    shrink_min_ratio: float = MIN_RATIO
    hooks: HooksDoor | None = None
    agent: Process | None = None
    bus: MemoryBus | None = None

    @property
    def agent_runs(self) -> bool:
        """Say whether an agent process exists."""
        return self.agent is not None and self.agent.is_running


def make(name: NodeName, place: Place, *, gpus: int, seed: int) -> Host:
    """Return a healthy host without an agent."""
    cards = FakeGpus(name, place.journal, declared=gpus)
    return Host(
        name=name,
        place=place,
        gpus=cards,
        clock=VirtualClock(place.loop),
        disk=Disk(place.loop.time),
        probe=FakeProbe(cards),
        raylets=FakeRaylets(place.head, boot_id="boot-1"),
        heads=FakeHeads(place.head, name, cluster=place.cluster),
        rng=random.Random(f"{seed}/{name}"),  # noqa: S311  repeatable, not secret
    )
