"""The shipped agent as a simulated process: its own composition, with the doors of a simulated host."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


from gpuherd.bus import Presence
from gpuherd.health import Action, Finding, Repair, Severity, Verdict, fold
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Online
from gpuherd_agent.doors import Identity
from gpuherd_agent.herald import Herald, Sources
from gpuherd_agent.readings import ProbeOutcome, Snapshot
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Doors, Health, Steward
from gpuherd_sim.disk import DiskStore
from gpuherd_sim.host import Host
from gpuherd_sim.memory_bus import Broker, MemoryBus


def program(host: Host, broker: Broker) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the main coroutine of a new life of the host's agent."""

    async def main() -> None:
        store = DiskStore(host.disk)
        epoch = max(int(host.clock.wall() * 1_000), store.load().epoch + 1)
        identity = Identity(
            cluster=host.place.cluster,
            node=host.name,
            epoch=epoch,
            host=f"machine-{host.name}",
            boot_id=host.boot_id,
        )
        rules = Rules(cluster=host.place.cluster, node=host.name, pool=host.place.pool, heads=("head:6379",))
        health = Health(
            snapshot=Snapshot(at=host.clock.now(), declared=host.gpus.declared), verdict=Verdict()
        )
        topic = topics.node(identity.cluster, identity.node, "online")

        def presence(number: int) -> Presence:
            def online(*, here: bool) -> bytes:
                return encode(
                    Online(
                        cluster=identity.cluster,
                        node=identity.node,
                        epoch=epoch,
                        conn=number,
                        online=here,
                        host=identity.host,
                    )
                )

            return Presence(topic=topic, here=online(here=True), will=online(here=False))

        bus = MemoryBus(broker, rng=host.rng, presence=presence)
        host.bus = bus

        def tell(kind: str, reason: str) -> None:
            herald.tell(kind, reason)

        steward = Steward(
            identity=identity,
            rules=rules,
            doors=Doors(clock=host.clock, rng=host.rng, raylets=host.raylets, heads=host.heads, store=store),
            health=lambda: health,
            tell=tell,
        )
        store.save(steward.memory)
        herald = Herald(
            identity=identity,
            rules=rules,
            bus=bus,
            sources=Sources(steward=steward, raylets=host.raylets, clock=host.clock, was_new=store.was_new),
        )

        async def sense() -> None:
            nonlocal health
            known: tuple[Any, ...] = ()
            bad = 1
            while True:
                reading = await host.probe.read()
                known = tuple(dict.fromkeys((*known, *(g.gpu for g in reading.gpus))))
                findings = []
                lost = [
                    host.gpus.uuid(i)
                    for i in range(host.gpus.declared)
                    if host.gpus.uuid(i) not in {g.gpu for g in reading.gpus}
                ]
                if reading.outcome is ProbeOutcome.OK and lost:
                    findings = [
                        Finding(
                            rule="dropout",
                            severity=Severity.CRITICAL,
                            action=Action.EVICT,
                            reason=f"{u} is lost",
                            gpu=u,
                            repair=Repair.REBOOT,
                        )
                        for u in lost
                    ]
                if reading.outcome is ProbeOutcome.DEADLINE:
                    findings = [
                        Finding(
                            rule="driver_hung",
                            severity=Severity.CRITICAL,
                            action=Action.EVICT,
                            reason="driver hung",
                        )
                    ]
                bad = bad + 1 if findings else 0
                verdict = fold(findings if bad > 1 else ())
                if reading.outcome is ProbeOutcome.CHILD_DIED:
                    verdict = health.verdict
                health = Health(
                    snapshot=Snapshot(
                        at=host.clock.now(), declared=host.gpus.declared, probe=reading, known=known
                    ),
                    verdict=verdict,
                )
                steward.wake()
                herald.glance()
                await host.clock.sleep_until(host.clock.now() + 1.0)

        async with asyncio.TaskGroup() as group:
            group.create_task(sense())
            await asyncio.sleep(0.1)
            group.create_task(bus.run())
            group.create_task(steward.run())
            group.create_task(herald.run())

    return main
