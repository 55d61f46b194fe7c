"""The shipped agent as a simulated process: its whole node, with the doors of a simulated host."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gpuherd_agent.doors import Identity
from gpuherd_agent.node import Node, Outside
from gpuherd_agent.sensing import Pace
from gpuherd_agent.station import Rules
from gpuherd_sim.disk import DiskStore
from gpuherd_sim.host import Host
from gpuherd_sim.memory_bus import Broker, MemoryBus


def program(host: Host, broker: Broker) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the main coroutine of a new life of the host's agent."""

    async def main() -> None:
        store = DiskStore(host.disk)
        identity = Identity(
            cluster=host.place.cluster,
            node=host.name,
            epoch=max(int(host.clock.wall() * 1_000), store.load().epoch + 1),
            host=f"machine-{host.name}",
            boot_id=host.boot_id,
        )
        node = Node(
            identity=identity,
            rules=Rules(
                cluster=identity.cluster,
                node=identity.node,
                pool=host.place.pool,
                heads=("head:6379",),
                declared=host.gpus.declared,
                shrink_min_ratio=host.shrink_min_ratio,
            ),
            declared=host.gpus.declared,
            pace=Pace(),
            outside=Outside(
                clock=host.clock,
                rng=host.rng,
                probe=host.probe,
                senses=(host.signs.sense(),),
                raylets=host.raylets,
                heads=host.heads,
                store=store,
                hooks=host.hooks,
            ),
        )
        host.bus = MemoryBus(
            broker,
            rng=host.rng,
            presence=lambda number: herald.presence(number),  # noqa: PLW0108  herald is made below
        )
        herald = node.listen(host.bus, was_new=store.was_new)
        async with asyncio.TaskGroup() as group:
            group.create_task(host.bus.run())
            group.create_task(node.run())

    return main
