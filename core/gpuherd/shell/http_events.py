"""Server-sent events: a bounded feed with ids, and a stream that resumes after Last-Event-ID.

Format: WHATWG HTML standard, section 9.2.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web

HEARTBEAT_S: Final = 15.0
"""A comment this often shows both ends that the stream still stands."""
_WRITE_TIMEOUT_S: Final = 30.0
_COMMENT: Final = b":\n\n"
_GAP: Final = b"event: gap\ndata: {}\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """``data`` is one line of JSON; ``id`` rises."""

    id: int
    kind: str
    data: bytes


class Feed:
    """The last ``size`` events, and word of new ones to any number of readers."""

    def __init__(self, *, size: int = 1_000) -> None:
        self._events: deque[ServerEvent] = deque(maxlen=size)
        self._changed = asyncio.Event()
        self._first_lost = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Say whether all streams are to end."""
        return self._is_closed

    def put(self, event: ServerEvent) -> None:
        """Append an event; its id must be above the last one's, else ValueError."""
        if self._events and event.id <= self._events[-1].id:
            raise ValueError(f"event {event.id} does not follow {self._events[-1].id}")
        if len(self._events) == self._events.maxlen:
            self._first_lost = self._events[0].id
        self._events.append(event)
        self._wake()

    def after(self, last_id: int) -> tuple[ServerEvent, ...]:
        """Return the stored events above ``last_id``."""
        return tuple(event for event in self._events if event.id > last_id)

    def has_gap(self, last_id: int) -> bool:
        """Say whether events after ``last_id`` are no longer stored, or ``last_id`` is not of this feed."""
        return last_id < self._first_lost or self.is_ahead(last_id)

    def is_ahead(self, last_id: int) -> bool:
        """Say whether no event had this id yet: the reader knows an earlier feed, begun anew since."""
        return last_id > (self._events[-1].id if self._events else self._first_lost)

    def close(self) -> None:
        """End all streams. For good: a closed feed takes no readers."""
        self._is_closed = True
        self._wake()

    async def wait(self, timeout_s: float) -> None:
        """Return at the next change, at the latest after ``timeout_s``."""
        changed = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def end_on_shutdown(app: web.Application, feed: Feed) -> None:
    """Close the feed as the application shuts down; else an open stream holds it up for its time-out."""

    async def close(_: web.Application) -> None:
        feed.close()

    app.on_shutdown.append(close)


async def stream(request: web.Request, feed: Feed, *, heartbeat_s: float = HEARTBEAT_S) -> web.StreamResponse:
    """Send what is stored after the request's Last-Event-ID (all without one), then what comes.

    An event named ``gap`` comes first when some in between are lost. Ends when the feed is closed, the
    client is gone, or the client takes nothing for 30 s.
    """
    last_id = _last_event_id(request)
    response = web.StreamResponse(
        headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
    )
    await response.prepare(request)
    try:
        # aiohttp holds the head back until the first write.
        await _write(response, _GAP if feed.has_gap(last_id) else _COMMENT)
        last_id = 0 if feed.is_ahead(last_id) else last_id
        while not feed.is_closed:
            fresh = feed.after(last_id)
            if not fresh:
                await feed.wait(heartbeat_s)
                fresh = feed.after(last_id)
            last_id = fresh[-1].id if fresh else last_id
            await _write(response, b"".join(map(_encode, fresh)) or _COMMENT)
    except (ConnectionError, TimeoutError):
        response.force_close()
    return response


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_WRITE_TIMEOUT_S):
        await response.write(data)


def _encode(event: ServerEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, event.kind.encode(), event.data)


def _last_event_id(request: web.Request) -> int:
    text = request.headers.get("Last-Event-ID", "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0  # noqa: PLR2004
