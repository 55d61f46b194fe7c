"""The shipped autoscaler as a simulated process: its own loop over a broker and a head in memory."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from gpuherd.names import ClusterName, OperationId
from gpuherd_autoscaler.book import Book, Herd
from gpuherd_autoscaler.commander import Commander
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.lease import StoreLease
from gpuherd_autoscaler.ledger import Mode
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.loop import Loop
from gpuherd_autoscaler.people import People
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.sources import Inbox, SightReader
from gpuherd_sim.memory_bus import Broker, MemoryBus
from gpuherd_sim.memory_ledger import MemoryLedger
from gpuherd_sim.ray_fake.doors import FakeSight
from gpuherd_sim.virtual_time import VirtualClock

_HEAD_DEADLINE_S = 4.0


@dataclass(slots=True, kw_only=True)
class ScalerHost:
    """What outlives a scaler: its ledger, its clock, and what it can reach."""

    cluster: ClusterName
    limits: Limits
    broker: Broker
    sight: FakeSight
    clock: VirtualClock
    rng: random.Random
    ledger: MemoryLedger
    holder: str = "scaler-1"
    people: People | None = None
    """The door for requests of people, in the scaler's present life."""
    commander: Commander | None = None
    """The door for commands of people, likewise."""
    loop: Loop | None = None


def program(host: ScalerHost) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the main coroutine of a new life of the scaler."""

    async def main() -> None:
        inventory = Inventory()
        herd = Herd(cluster=host.cluster, pools=host.limits.pools, head=("head:6379",))
        book = Book(
            host.ledger,
            inventory,
            herd,
            host.clock,
            start_mode=Mode.ENFORCE,
            new_id=lambda: OperationId(f"op-{host.rng.getrandbits(48):012x}"),
        )
        bus = MemoryBus(host.broker, rng=host.rng)
        publisher = Publisher(bus, host.ledger, host.cluster)
        reader = SightReader(host.sight.sight, host.clock, deadline_s=_HEAD_DEADLINE_S)
        lease = StoreLease(host.sight, host.clock, host.cluster, holder=host.holder)
        book.lead_by(lease.why_not_leading)
        publisher.silence_by(lease.why_not_leading)
        loop = Loop(book=book, bus=bus, publisher=publisher, read_sight=reader.read, limits=host.limits)
        loop.lead_by(lease)
        Inbox(inventory, host.clock, host.cluster, on_news=loop.wake, listed=herd.names).listen(bus)
        book.on_order(lambda node: publisher.offer(node, now=host.clock.now()))
        bus.on_connect(lambda: publisher.offer_all(herd.names, now=host.clock.now()))
        host.people, host.loop, host.commander = People(book), loop, Commander(book, bus)
        host.commander.listen()
        async with asyncio.TaskGroup() as group:
            group.create_task(bus.run())
            group.create_task(loop.run())

    return main
