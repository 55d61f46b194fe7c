"""The agent as a simulated process: its steward and herald, with the doors of a simulated host.

Sensing is a stand-in that knows two rules, a lost GPU and a hung driver, each confirmed by a second look.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from gpuherd.bus import Presence
from gpuherd.health import Action, Finding, Repair, Severity, Verdict, fold
from gpuherd.names import GpuUuid
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Online
from gpuherd_agent.doors import Identity
from gpuherd_agent.herald import Herald, Sources
from gpuherd_agent.readings import ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Doors, Health, Steward
from gpuherd_sim.disk import DiskStore
from gpuherd_sim.host import Host
from gpuherd_sim.memory_bus import Broker, MemoryBus

_PERIOD_S: Final = 1.0
_CONFIRM: Final = 2


def program(host: Host, broker: Broker) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the main coroutine of a new life of the host's agent."""
    return _Life(host, broker).run


class _Life:
    """One life of one agent."""

    def __init__(self, host: Host, broker: Broker) -> None:
        self._host = host
        self._broker = broker
        self._health = _first_health(host)
        self._known: tuple[GpuUuid, ...] = ()
        self._bad_in_a_row = 0

    async def run(self) -> None:
        """Compose the agent and run it until it is killed."""
        host = self._host
        store = DiskStore(host.disk)
        epoch = max(int(host.clock.wall() * 1_000), store.load().epoch + 1)
        identity = Identity(
            cluster=host.place.cluster,
            node=host.name,
            epoch=epoch,
            host=f"machine-{host.name}",
            boot_id=host.boot_id,
        )
        rules = Rules(
            cluster=identity.cluster, node=identity.node, pool=host.place.pool, heads=("head:6379",)
        )
        host.bus = MemoryBus(self._broker, rng=host.rng, presence=_presence(identity))
        steward = Steward(
            identity=identity,
            rules=rules,
            doors=Doors(clock=host.clock, rng=host.rng, raylets=host.raylets, heads=host.heads, store=store),
            health=lambda: self._health,
            tell=lambda kind, reason: herald.tell(kind, reason),  # noqa: PLW0108  herald is made below
        )
        sources = Sources(steward=steward, raylets=host.raylets, clock=host.clock, was_new=store.was_new)
        herald = Herald(identity=identity, rules=rules, bus=host.bus, sources=sources)
        store.save(steward.memory)
        await self._sense()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sense_for_ever(steward, herald))
            group.create_task(host.bus.run())
            group.create_task(steward.run())
            group.create_task(herald.run())

    async def _sense_for_ever(self, steward: Steward, herald: Herald) -> None:
        while True:
            await self._host.clock.sleep_until(self._host.clock.now() + _PERIOD_S)
            await self._sense()
            steward.wake()
            herald.glance()

    async def _sense(self) -> None:
        """Read once and judge; what a dead probe child leaves unknown changes no verdict."""
        host = self._host
        reading = await host.probe.read()
        if reading.outcome is ProbeOutcome.CHILD_DIED:
            return
        self._known = tuple(dict.fromkeys((*self._known, *(g.gpu for g in reading.gpus))))
        findings = tuple(_findings(reading, host))
        is_first = self._health.snapshot.probe is None
        self._bad_in_a_row = self._bad_in_a_row + 1 if findings else 0
        confirmed = is_first or self._bad_in_a_row >= _CONFIRM
        self._health = Health(
            snapshot=Snapshot(
                at=host.clock.now(), declared=host.gpus.declared, probe=reading, known=self._known
            ),
            verdict=fold(findings if confirmed else ()),
        )


def _first_health(host: Host) -> Health:
    return Health(snapshot=Snapshot(at=host.clock.now(), declared=host.gpus.declared), verdict=Verdict())


def _findings(reading: ProbeReading, host: Host) -> Iterator[Finding]:
    if reading.outcome is ProbeOutcome.DEADLINE:
        yield Finding(
            rule="driver_hung", severity=Severity.CRITICAL, action=Action.EVICT, reason="the driver hangs"
        )
        return
    present = {gpu.gpu for gpu in reading.gpus}
    for index in range(host.gpus.declared):
        gpu = host.gpus.uuid(index)
        if gpu not in present:
            yield Finding(
                rule="dropout",
                severity=Severity.CRITICAL,
                action=Action.EVICT,
                reason=f"{gpu} is lost",
                gpu=gpu,
                repair=Repair.REBOOT,
            )


def _presence(identity: Identity) -> Callable[[int], Presence]:
    def of(number: int) -> Presence:
        here, will = (
            encode(
                Online(
                    cluster=identity.cluster,
                    node=identity.node,
                    epoch=identity.epoch,
                    conn=number,
                    online=is_here,
                    host=identity.host,
                )
            )
            for is_here in (True, False)
        )
        return Presence(topic=topics.node(identity.cluster, identity.node, "online"), here=here, will=will)

    return of
