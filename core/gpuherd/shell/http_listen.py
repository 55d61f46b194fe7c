"""Where an HTTP application listens: a unix socket, or a TCP port on loopback, each with its bounds.

Anything wider needs mutual TLS, which these listeners do not speak, and is refused.
"""

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiohttp import web

from gpuherd.errors import ConfigInvalid

_IDLE_S: Final = 15.0
"""A connection without a whole request head for this long is closed (slow heads as well as idle ones)."""
_MAX_CONNECTIONS: Final = 64
_MAX_HEADERS: Final = 64
_SHUTDOWN_S: Final = 2.0
_SOCKET_MODE: Final = 0o660


@dataclass(frozen=True, slots=True, kw_only=True)
class Tcp:
    """``key`` names the setting that a complaint is about. Port 0 = any free one."""

    host: str
    port: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unix:
    """Open to the socket's owner and group."""

    path: Path
    key: str


@contextlib.asynccontextmanager
async def serving(
    app: web.Application,
    place: Tcp | Unix,
    *,
    idle_s: float = _IDLE_S,
    max_connections: int = _MAX_CONNECTIONS,
) -> AsyncIterator[Tcp | Unix]:
    """Serve ``app`` inside the block and yield where, with the real port.

    Raises ConfigInvalid naming the place's key when it is taken, not allowed or cannot be made. At the
    end running requests get 2 s; ``app.on_shutdown`` is the signal for those that would never end.
    """
    sock = _bind(place)
    try:
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=idle_s,
            shutdown_timeout=_SHUTDOWN_S,
            max_headers=_MAX_HEADERS,
            auto_decompress=False,
        )
        await runner.setup()
        server = await _listen(runner, sock, max_connections)
        try:
            yield replace(place, port=sock.getsockname()[1]) if isinstance(place, Tcp) else place
        finally:
            server.close()
            await runner.cleanup()
    finally:
        sock.close()
        if isinstance(place, Unix):
            place.path.unlink(missing_ok=True)


async def _listen(runner: web.AppRunner, sock: socket.socket, max_connections: int) -> asyncio.Server:
    inner = runner.server
    if inner is None:
        raise RuntimeError("the runner is not set up")

    def accept() -> asyncio.Protocol:
        return inner() if len(inner.connections) < max_connections else _Full()

    loop = asyncio.get_running_loop()
    if sock.family == socket.AF_UNIX:
        return await loop.create_unix_server(accept, sock=sock)
    return await loop.create_server(accept, sock=sock)


class _Full(asyncio.Protocol):
    """Turns a connection away that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def _bind(place: Tcp | Unix) -> socket.socket:
    return _bind_tcp(place) if isinstance(place, Tcp) else _bind_unix(place)


def _bind_tcp(place: Tcp) -> socket.socket:
    try:
        address = ipaddress.ip_address("127.0.0.1" if place.host == "localhost" else place.host)
    except ValueError as error:
        raise ConfigInvalid({place.key: f"{place.host!r} is no IP address"}) from error
    if not address.is_loopback:
        why = f"{place.host} can be reached from outside, which needs mutual TLS: use 127.0.0.1 or ::1"
        raise ConfigInvalid({place.key: why})
    sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6)  # noqa: PLR2004
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((str(address), place.port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigInvalid({place.key: _why_not(error, f"port {place.port} on {place.host}")}) from error
    return sock


def _bind_unix(place: Unix) -> socket.socket:
    _clear_stale(place)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(str(place.path))
        # No one can connect before listen(), so there is no moment with a wider mode.
        place.path.chmod(_SOCKET_MODE)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigInvalid({place.key: _why_not(error, str(place.path))}) from error
    return sock


def _clear_stale(place: Unix) -> None:
    """Remove the socket of a dead process; raises ConfigInvalid for a live one's, or for another file."""
    try:
        mode = os.lstat(place.path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigInvalid({place.key: f"{place.path} exists and is no socket"})
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(place.path))
        except ConnectionRefusedError:
            place.path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise ConfigInvalid({place.key: _why_not(error, str(place.path))}) from error
    raise ConfigInvalid({place.key: f"{place.path} is in use by another process"})


def _why_not(error: OSError, what: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{what} is in use by another process"
    if error.errno == errno.ENOENT:
        return f"the folder of {what} does not exist"
    return f"cannot listen on {what}: {error.strerror or error}"
