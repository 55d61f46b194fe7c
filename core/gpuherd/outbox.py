"""What waits to be published: the latest value of each kept topic, and the last told messages.

Bounded whatever the outage: one value a topic, and a ring of told messages that loses its oldest.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

RING: Final = 1_000
"""Told messages that survive an outage."""
MAX_TRIES: Final = 3
"""A message that broke this many connections is taken for the cause and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One publication. ``tries`` counts how often it was begun and not confirmed."""

    topic: str
    payload: bytes
    retain: bool
    tries: int = 0


@dataclass(slots=True)
class Outbox:
    """Fill with ``keep`` and ``tell``, drain with ``take``; ``dropped`` counts by reason."""

    max_bytes: int
    dropped: Counter[str] = field(default_factory=Counter)
    _kept: dict[str, bytes] = field(default_factory=dict)
    _due: dict[str, None] = field(default_factory=dict)
    _told: deque[Outgoing] = field(default_factory=deque)

    def keep(self, topic: str, payload: bytes) -> None:
        """Replace what ``topic`` keeps; a value not yet sent is coalesced away."""
        if self._fits(payload):
            self._kept[topic] = payload
            self._due[topic] = None

    def tell(self, topic: str, payload: bytes) -> None:
        """Queue one message; the oldest one is lost when the ring is full."""
        if not self._fits(payload):
            return
        if len(self._told) >= RING:
            self._told.popleft()
            self.dropped["ring"] += 1
        self._told.append(Outgoing(topic=topic, payload=payload, retain=False))

    def connected(self) -> None:
        """Make all kept values due again, since the broker may have lost them."""
        self._due = dict.fromkeys(self._kept)

    def take(self) -> Outgoing | None:
        """Return what to publish next, kept values first, or None."""
        if self._due:
            topic = next(iter(self._due))
            del self._due[topic]
            return Outgoing(topic=topic, payload=self._kept[topic], retain=True)
        return self._told.popleft() if self._told else None

    def give_back(self, sent: Outgoing) -> None:
        """Return a message whose delivery was not confirmed; a kept value is due on the next connect."""
        if sent.retain:
            return
        if sent.tries + 1 >= MAX_TRIES:
            self.dropped["undelivered"] += 1
        elif len(self._told) >= RING:
            self.dropped["ring"] += 1
        else:
            again = Outgoing(topic=sent.topic, payload=sent.payload, retain=False, tries=sent.tries + 1)
            self._told.appendleft(again)

    @property
    def told(self) -> int:
        """How many told messages wait."""
        return len(self._told)

    def _fits(self, payload: bytes) -> bool:
        """Brokers answer an oversize publish by silence or by closing, each time anew: never send it."""
        if len(payload) > self.max_bytes:
            self.dropped["oversize_out"] += 1
            return False
        return True
