"""Real brokers for integration tests: a mosquitto of its own, or amqtt in the test's loop.

Each listens on a free loopback port, starts empty, and can be stopped and started again on that port.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, Protocol

from gpuherd_autoscaler.embedded_broker import EmbeddedBroker

_CONFIG: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
message_size_limit {max_bytes}
log_dest none
"""
KINDS: Final = ("mosquitto", "amqtt")


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class BrokerUnderTest(Protocol):
    """A broker under the test's control."""

    @property
    def url(self) -> str:
        """``mqtt://127.0.0.1:PORT``, the same over restarts."""
        ...

    async def start(self) -> None:
        """Listen, with nothing retained."""
        ...

    async def stop(self) -> None:
        """End it; clients see their connection close."""
        ...


class Mosquitto:
    """A mosquitto process with a configuration of its own under ``folder``."""

    def __init__(self, folder: Path, *, max_bytes: int = 0) -> None:
        self._port = free_port()
        self._config = folder / f"mosquitto-{self._port}.conf"
        self._config.write_text(_CONFIG.format(port=self._port, max_bytes=max_bytes))
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"mqtt://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start it and wait until it accepts."""
        self._process = await asyncio.create_subprocess_exec("mosquitto", "-c", str(self._config))
        await until(self._accepts)

    async def stop(self) -> None:
        """Kill it, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    def freeze(self) -> None:
        """Stop it without closing anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


@contextlib.asynccontextmanager
async def running(kind: str, folder: Path) -> AsyncIterator[BrokerUnderTest]:
    """Start one of KINDS and end it whatever happens."""
    broker: BrokerUnderTest = Mosquitto(folder) if kind == "mosquitto" else EmbeddedBroker(port=free_port())
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def until(holds: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """Return once ``holds()``; TimeoutError after ``within_s``. For what only the real world decides."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  # polls a process or a broker that has no event to wait for
            await asyncio.sleep(0.02)
