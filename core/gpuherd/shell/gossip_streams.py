"""The gossip's streams: a listener on the port of the datagrams, and calls to others'. Frames in and out.

A frame is 4 bytes of length (big endian) and so many bytes. One frame each way, then the stream is closed.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from gpuherd.errors import ConfigInvalid
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.inputs import CallEnd, CallResult, Request
from gpuherd.gossip.limits import CALL_TIMEOUT_S, MAX_FRAME_BYTES
from gpuherd.gossip.outputs import Call
from gpuherd.shell.clock import Clock

BACKLOG: Final = 1_024
"""A full backlog would let handshakes time out and make a stalled agent look unreachable."""
MAX_STREAMS: Final = 128
"""Streams that others have open to us; one more ends the oldest."""
MAX_CALLS: Final = 64
"""Streams that we have open to others; a call beyond waits for its turn within its own time."""
_HEAD: Final = 4

Hear = Callable[[Request | CallResult], None]


class Frames:
    """Puts one frame together from pieces. ``feed`` returns it once, whole; raises ValueError if too long."""

    def __init__(self) -> None:
        self._got = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Take a piece."""
        self._got += data
        if len(self._got) < _HEAD:
            return None
        size = int.from_bytes(self._got[:_HEAD], "big")
        if size > MAX_FRAME_BYTES:
            raise ValueError(size)
        whole = _HEAD + size
        return bytes(self._got[_HEAD:whole]) if len(self._got) >= whole else None


def frame(payload: bytes) -> bytes:
    """Return the frame that carries ``payload``."""
    return len(payload).to_bytes(_HEAD, "big") + payload


class Listener:
    """Takes streams of others. Bounded in number, bytes and time; the oldest is ended for a newcomer."""

    def __init__(self, hear: Hear, clock: Clock) -> None:
        self._hear = hear
        self._clock = clock
        self._open: dict[int, _Inbound] = {}
        self._number = 0
        self._server: asyncio.Server | None = None
        self.shed: int = 0

    async def start(self, bind: str, port: int) -> None:
        """Listen; raises ConfigInvalid when the port is taken."""
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setblocking(False)
            sock.bind((bind, port))
        except OSError as error:
            sock.close()
            why = f"cannot listen on {bind} port {port} (TCP): {error.strerror or error}"
            raise ConfigInvalid({"gossip.port": why}) from error
        self._server = await loop.create_server(lambda: _Inbound(self), sock=sock, backlog=BACKLOG)

    def close(self) -> None:
        """Give the port back and end all streams."""
        if self._server is not None:
            self._server.close()
        for inbound in tuple(self._open.values()):
            inbound.end()

    def answer(self, request: int, payload: bytes) -> None:
        """Answer a request whose stream still stands, and close it."""
        inbound = self._open.get(request)
        if inbound is not None:
            inbound.answer(payload)

    def opened(self, inbound: "_Inbound") -> int:
        """Return the number of a new stream; the oldest makes room for it."""
        if len(self._open) >= MAX_STREAMS:
            self.shed += 1
            next(iter(self._open.values())).end()
        self._number += 1
        self._open[self._number] = inbound
        return self._number

    def closed(self, number: int) -> None:
        """Forget a stream."""
        self._open.pop(number, None)

    def heard(self, number: int, source: Address, payload: bytes) -> None:
        """Hand over the frame of a stream."""
        self._hear(Request(request=number, source=source, payload=payload, received_at=self._clock.now()))


class _Inbound(asyncio.Protocol):
    """One stream that somebody opened to us."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._frames = Frames()
        self._number = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  create_server makes no other
        self._transport = transport
        self._number = self._listener.opened(self)
        self._timer = asyncio.get_running_loop().call_later(CALL_TIMEOUT_S, self.end)

    def data_received(self, data: bytes) -> None:
        if self._is_heard:
            self.end()
            return
        try:
            payload = self._frames.feed(data)
        except ValueError:
            self.end()
            return
        if payload is not None and self._transport is not None:
            self._is_heard = True
            peer = self._transport.get_extra_info("peername")
            if peer:
                self._listener.heard(self._number, _address(peer), payload)

    def answer(self, payload: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(payload))
            self._transport.close()

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
        self._listener.closed(self._number)


class Caller:
    """Opens streams to others and tells how each ended, exactly once."""

    def __init__(self, hear: Hear, clock: Clock) -> None:
        self._hear = hear
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, call: Call) -> None:
        """Begin a call; its CallResult comes within its time-out."""
        task = asyncio.get_running_loop().create_task(self._carry_out(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all calls without a result."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(self, call: Call) -> None:
        outbound = _Outbound(call.payload, self._clock)
        end = CallEnd.SILENT
        try:
            async with asyncio.timeout(call.timeout_s), self._slots:
                host, port = call.destination
                await asyncio.get_running_loop().create_connection(lambda: outbound, host, port)
                end = CallEnd.HANDSHAKE
                await outbound.done
        except TimeoutError:
            pass
        except ConnectionRefusedError:
            end = CallEnd.REFUSED
        except OSError:
            pass  # no way there: as silent as no answer
        finally:
            outbound.end()
        if outbound.received is not None:
            end = CallEnd.ANSWERED
        self._hear(
            CallResult(
                call=call.call,
                end=end,
                received_at=outbound.received_at or self._clock.now(),
                answer=outbound.received or b"",
            )
        )


class _Outbound(asyncio.Protocol):
    """One stream that we opened; ``done`` ends with the answer, or with the stream."""

    def __init__(self, payload: bytes, clock: Clock) -> None:
        self._payload = payload
        self._clock = clock
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received: bytes | None = None
        self.received_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  create_connection makes no other
        self._transport = transport
        transport.write(frame(self._payload))

    def data_received(self, data: bytes) -> None:
        with contextlib.suppress(ValueError):  # too long: no answer
            self.received = self._frames.feed(data)
            if self.received is None:
                return
        self.received_at = self._clock.now()
        self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _address(peer: tuple[str, int]) -> Address:
    host = peer[0].partition("%")[0]
    return Address(host.removeprefix("::ffff:") if "." in host else host, peer[1])
