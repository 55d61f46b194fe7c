"""A client in a process of its own, to be stopped or killed: ``python -m tests.kit.mqtt_client URL ID``."""

import asyncio
import random
import sys

from gpuherd.broker_settings import BrokerSettings
from gpuherd.bus import Presence
from gpuherd.shell.broker import MqttBus
from gpuherd.shell.clock import SystemClock


def presence(client_id: str, number: int) -> Presence:
    """Return what a client of this kit says of itself."""
    return Presence(
        topic=f"t/{client_id}/online",
        here=f"here {number}".encode(),
        will=f"gone {number}".encode(),
    )


async def _main(url: str, client_id: str) -> None:
    bus = MqttBus(
        BrokerSettings(url=url, keepalive_s=1, reconnect_first_s=0.2, reconnect_cap_s=0.5),
        client_id=client_id,
        clock=SystemClock(),
        rng=random.Random(1),  # noqa: S311
        presence=lambda number: presence(client_id, number),
    )
    await bus.run()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:3]))
