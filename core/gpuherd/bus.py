"""The broker as the programs see it: latest values kept, events told, messages received.

The broker is transport and cache, never the ledger: nothing here promises delivery. Implemented for
real by ``gpuherd.shell.broker`` and in virtual time by ``gpuherd_sim``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message from the broker. ``retained`` = it was stored before we subscribed."""

    topic: str
    payload: bytes
    retained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What one connection says of itself: published retained when it stands, ``will`` when it is lost.

    An empty ``here`` = the program says it by itself, once it knows that it may; then it says its own
    goodbye too.
    """

    topic: str
    here: bytes
    will: bytes


Receive = Callable[[Message], None]


class Bus(Protocol):
    """A connection that heals itself. No method waits for the broker or raises because of it."""

    @property
    def is_connected(self) -> bool:
        """Say whether a session with the broker stands now."""
        ...

    def keep(self, topic: str, payload: bytes) -> None:
        """Make ``payload`` the retained value of ``topic``: now, and again on every connect."""
        ...

    def tell(self, topic: str, payload: bytes) -> None:
        """Publish once, not retained. While away the last 1,000 wait; older ones are lost."""
        ...

    def subscribe(self, pattern: str, receive: Receive) -> None:
        """Hand every message under ``pattern`` to ``receive``, from the next connect on."""
        ...

    def on_connect(self, call: Callable[[], None]) -> None:
        """Call back after each connect, once subscriptions stand and kept values are published."""
        ...

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        ...
