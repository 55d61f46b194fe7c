"""One node's steward in the test's process, with its real doors to Ray and a health that the test sets."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
from tests.kit.ray_cluster import CLUSTER, GPUS, POOL, RayCluster

from gpuherd.fence import Mark
from gpuherd.health import Severity, Verdict
from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.shell.clock import SystemClock
from gpuherd_agent.actuators.head import HeadHelper
from gpuherd_agent.actuators.processes import boot_id
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.doors import Identity, Raylet
from gpuherd_agent.gate import Gate
from gpuherd_agent.memory import Orders
from gpuherd_agent.readings import GpuReading, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.sensors.host import HostSensor
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Doors, Health, Steward
from gpuherd_agent.store import Store
from gpuherd_sim.demo.processes import MARK

CLOCK: Final = SystemClock()


@dataclass(slots=True)
class Plan:
    """What a case changes before the node is ordered to serve."""

    cluster: RayCluster
    name: NodeName
    folder: Path
    head: str
    settings: RaySettings
    health: Health

    @classmethod
    def make(cls, cluster: RayCluster, name: NodeName, folder: Path) -> "Plan":
        """Return a node that would join."""
        settings = cluster.settings(name)
        probe = ProbeReading(
            outcome=ProbeOutcome.OK,
            counted=len(GPUS),
            gpus=tuple(GpuReading(gpu=gpu, index=i, pci_bus_id=f"{i}") for i, gpu in enumerate(GPUS)),
        )
        snapshot = Snapshot(
            at=CLOCK.now(), declared=len(GPUS), probe=probe, host=HostSensor(CLOCK).read(), known=GPUS
        )
        health = Health(snapshot=snapshot, verdict=Verdict(severity=Severity.OK))
        return cls(cluster, name, folder, cluster.head, settings, health)

    def set(self, **settings: object) -> None:
        """Change settings of ``[ray]``."""
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]  # checked by replace


@dataclass(slots=True)
class Member:
    """The node at work; ``told`` is what it said."""

    plan: Plan
    steward: Steward
    child: RayChild
    told: list[tuple[str, str]] = field(default_factory=list)

    @property
    def raylet(self) -> Raylet:
        """Return its raylet."""
        assert self.steward.memory.raylet is not None
        return self.steward.memory.raylet

    async def until(self, what: str, is_so: Callable[[], bool], *, within_s: float) -> None:
        """Wait for it; running out of time fails and tells where the node stands."""
        end = CLOCK.now() + within_s
        while not is_so():
            station = self.steward.station
            assert CLOCK.now() < end, f"not within {within_s:g} s: {what}; {station.phase}: {station.reason}"
            await CLOCK.sleep_until(CLOCK.now() + 0.02)

    def order(self) -> None:
        """Order it to serve."""
        mark = Mark(term=1, generation=1, digest="")
        orders = Orders(payload=b"", mark=mark, serve=True, pool=POOL, pool_size=3)
        assert self.steward.remember(msgspec.structs.replace(self.steward.memory, orders=orders))

    async def joined(self) -> Raylet:
        """Wait until it is a member."""
        await self.until("a member", lambda: self.steward.station.phase is Phase.MEMBER, within_s=90.0)
        return self.raylet


@contextlib.asynccontextmanager
async def member(plan: Plan, *, is_ordered: bool = True) -> AsyncIterator[Member]:
    """Run the steward of a node, by default ordered to serve; at the end nothing of it is left."""
    settings, name = plan.settings, plan.name
    environ = {**plan.cluster.stage.environment(), MARK: str(plan.cluster.stage.folder)}
    owner = plan.cluster.owner(name)
    child = RayChild(settings, owner, log=plan.folder / "start.log", environ=environ)
    token_path = settings.token_path if settings.auth_mode == "token" else ""
    heads = HeadHelper(cluster=CLUSTER, node=name, token_path=token_path)
    store = Store(plan.folder / "state")
    made: list[Member] = []
    steward = Steward(
        identity=Identity(cluster=CLUSTER, node=name, epoch=1, host="here", boot_id=boot_id()),
        rules=Rules(cluster=CLUSTER, node=name, pool=POOL, heads=(plan.head,), declared=len(GPUS)),
        doors=Doors(
            clock=CLOCK,
            rng=random.SystemRandom(),  # a head never takes a node id twice
            raylets=child,
            heads=heads,
            store=store,
            gate=Gate(raylets=child, heads=heads, clock=CLOCK),
        ),
        health=lambda: plan.health,
        tell=lambda kind, reason: made[0].told.append((kind, reason)),
    )
    made.append(Member(plan, steward, child))
    if is_ordered:
        made[0].order()
    running = asyncio.ensure_future(steward.run())
    try:
        yield made[0]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        raylet = steward.memory.raylet or await child.find(None)
        clean = raylet is None or await child.stop(raylet, grace_s=5.0)
        store.close()
        assert clean
        left = [*child._ours(raylet.session_pid if raylet else None)]
        assert left == [], "orphans"
