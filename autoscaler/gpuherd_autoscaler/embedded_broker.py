"""An MQTT broker in this process (amqtt) for the demo and for fleets of one host.

Memory only, without passwords, and therefore on loopback only; from the second host on use mosquitto.
amqtt is an extra and is imported on start, so that an autoscaler with a broker of its own needs none.
"""

import asyncio
import errno
import ipaddress
import logging
from typing import TYPE_CHECKING, Final

from gpuherd.errors import ConfigInvalid

if TYPE_CHECKING:
    from gpuherd_autoscaler.amqtt_broker import LoopbackBroker

MAX_RETAINED: Final = 40_000
"""Four retained topics for each of 10,000 nodes; amqtt itself has no bound (its issue 247)."""


class EmbeddedBroker:
    """Listens on ``host:port`` between ``start`` and ``stop``."""

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 1883, max_retained: int = MAX_RETAINED
    ) -> None:
        """Raise ConfigInvalid for an address that others could reach."""
        if not _is_loopback(host):
            why = f"{host!r} can be reached from outside; the embedded broker asks nobody for a password"
            raise ConfigInvalid({"broker.embedded_host": f"{why}: use 127.0.0.1, or a mosquitto"})
        self.host = host
        self.port = port
        self._max_retained = max_retained
        self._broker: LoopbackBroker | None = None

    @property
    def url(self) -> str:
        """Return where clients of this host find it."""
        return f"mqtt://{self.host}:{self.port}"

    @property
    def dropped(self) -> int:
        """How many retained values it refused, over their number or size, since it was started."""
        return self._broker.dropped if self._broker else 0

    async def start(self) -> None:
        """Listen; raises ConfigInvalid when the port is taken or amqtt is not installed."""
        try:
            from gpuherd_autoscaler.amqtt_broker import BrokerError, LoopbackBroker  # noqa: PLC0415
        except ImportError as error:
            why = "needs amqtt: install gpuherd[broker], or name a broker by broker.url"
            raise ConfigInvalid({"broker.embedded": why}) from error
        # It reports each dropped peer as a warning and a failed start with a traceback of its own.
        logging.getLogger("amqtt").setLevel(logging.CRITICAL)
        broker = LoopbackBroker(host=self.host, port=self.port, max_retained=self._max_retained)
        try:
            await broker.start()
        except BrokerError as error:
            raise ConfigInvalid({"broker.embedded_port": self._why_not(error)}) from error
        self._broker = broker

    async def stop(self) -> None:
        """Close the listener and all sessions; does nothing when it is not running."""
        broker, self._broker = self._broker, None
        if broker is not None:
            async with asyncio.timeout(10.0):
                await broker.shutdown()

    def _why_not(self, error: BaseException) -> str:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
            return f"port {self.port} on {self.host} is taken by another process; choose another one"
        return f"cannot listen on {self.host}:{self.port}: {cause or error}"


def _is_loopback(host: str) -> bool:
    """Only IPv4: amqtt hands ``[::1]`` with its brackets to the resolver."""
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return host == "localhost"
