"""A broker in memory, in virtual time: retained values, last wills, outages, and clients that heal.

Each link is first in, first out with its own delay. It promises as little as MQTT at QoS 0 does: what is
on the way when a session ends may be lost.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpuherd.bus import Message, Presence, Receive
from gpuherd_sim import process
from gpuherd_sim.virtual_time import VirtualLoop

WAITING_KEPT: Final = 1_000
"""How many untold messages wait while the broker is away, as ``gpuherd.bus.Bus.tell`` says."""
RETRY_FIRST_S: Final = 1.0
RETRY_CAP_S: Final = 10.0


def matches(pattern: str, topic: str) -> bool:
    """Say whether an MQTT topic filter matches a topic (``+`` one level, ``#`` the rest)."""
    if "+" not in pattern and "#" not in pattern:
        return pattern == topic
    wanted, given = pattern.split("/"), topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(given) or level not in ("+", given[place]):
            return False
    return len(wanted) == len(given)


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One connection as the broker sees it; ``will`` is published unless the client says goodbye."""

    bus: "MemoryBus"
    presence: Presence | None


class Broker:
    """The broker itself. It may go down, come back, and come back empty."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.is_up = True
        self.retained: dict[str, bytes] = {}
        self.published_total = 0
        self.watchers: list[Callable[[str, bytes], None]] = []
        """Called with each publication, for the record of a run."""
        self._sessions: list[Session] = []
        self._exact: dict[str, list[Session]] = {}
        self._wild: list[tuple[str, Session]] = []

    def connect(self, session: Session) -> None:
        """Open a session; an older one of the same client is taken over, which fires its will."""
        for other in [s for s in self._sessions if s.bus is session.bus]:
            self.lose(other)
        self._sessions.append(session)

    def subscribe(self, session: Session, pattern: str) -> None:
        """Hand over what is retained under ``pattern`` and whatever comes from now on."""
        if "+" in pattern or "#" in pattern:
            self._wild.append((pattern, session))
        else:
            self._exact.setdefault(pattern, []).append(session)
        for topic in sorted(self.retained):
            if matches(pattern, topic):
                session.bus.hand_over(
                    session, Message(topic=topic, payload=self.retained[topic], retained=True)
                )

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Keep the value when told to, and hand it to each session that asked for it."""
        self.published_total += 1
        if retain and payload:
            self.retained[topic] = payload
        elif retain:
            self.retained.pop(topic, None)
        for watch in self.watchers:
            watch(topic, payload)
        wild = (session for pattern, session in self._wild if matches(pattern, topic))
        for session in (*self._exact.get(topic, ()), *wild):
            session.bus.hand_over(session, Message(topic=topic, payload=payload))

    def has(self, session: Session) -> bool:
        """Say whether the session stands."""
        return self.is_up and session in self._sessions

    def lose(self, session: Session) -> None:
        """End a session whose client vanished: its will is published now."""
        if session in self._sessions:
            self._forget(session)
            if session.presence is not None:
                self.publish(session.presence.topic, session.presence.will, retain=True)

    def goodbye(self, session: Session) -> None:
        """End a session whose client disconnects: it says itself that it goes, and its will is forgotten."""
        if session in self._sessions:
            self._forget(session)
            if session.presence is not None:
                self.publish(session.presence.topic, session.presence.will, retain=True)

    def kill(self) -> None:
        """Go down: every session ends, and no will is published."""
        self.is_up = False
        for session in tuple(self._sessions):
            self._forget(session)

    def start(self, *, empty: bool) -> None:
        """Come back, with or without what was retained."""
        if empty:
            self.retained.clear()
        self.is_up = True

    def _forget(self, session: Session) -> None:
        self._sessions.remove(session)
        for listeners in self._exact.values():
            while session in listeners:
                listeners.remove(session)
        self._wild = [(pattern, s) for pattern, s in self._wild if s is not session]
        session.bus.session_ended(session)


class MemoryBus:
    """``gpuherd.bus.Bus`` for one client of a Broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        rng: random.Random,
        presence: Callable[[int], Presence] | None = None,
        delay_s: float = 0.002,
    ) -> None:
        """``presence`` makes what connection number n (from 1) says of itself."""
        self.delay_s = delay_s
        """One way; may be changed during a run."""
        self.is_cut = False
        """True = the link is down; call ``cut`` to make it so."""
        self.connections_total = 0
        self._broker = broker
        self._loop = broker.loop
        self._rng = rng
        self._presence = presence
        self._session: Session | None = None
        self._kept: dict[str, bytes] = {}
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=WAITING_KEPT)
        self._subscriptions: list[tuple[str, Receive]] = []
        self._calls: list[Callable[[], None]] = []
        self._wills: deque[bytes] = deque(maxlen=WAITING_KEPT)
        self._ended = asyncio.Event()
        self._context = contextvars.Context()

    @property
    def is_connected(self) -> bool:
        """Say whether a session stands."""
        return self._session is not None

    def keep(self, topic: str, payload: bytes) -> None:
        """Make ``payload`` the retained value now, and again on each connect."""
        self._kept[topic] = payload
        self._send(topic, payload, retain=True)

    def tell(self, topic: str, payload: bytes) -> None:
        """Publish once, or as soon as a session stands."""
        if self._session is None:
            self._waiting.append((topic, payload))
        else:
            self._send(topic, payload, retain=False)

    def subscribe(self, pattern: str, receive: Receive) -> None:
        """Hand every message under ``pattern`` to ``receive`` from the next connect on."""
        self._subscriptions.append((pattern, receive))

    def on_connect(self, call: Callable[[], None]) -> None:
        """Call back after each connect."""
        self._calls.append(call)

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        self._context = contextvars.copy_context()
        owner = process.current()
        if owner is not None:
            owner.at_death(self._vanish)
        tries = 0
        try:
            while True:
                if self._broker.is_up and not self.is_cut:
                    tries = 0
                    self._connect()
                    await self._ended.wait()
                tries += 1
                await asyncio.sleep(self._rng.uniform(0.1, min(RETRY_CAP_S, RETRY_FIRST_S * 2**tries)))
        finally:
            if self._session is not None:
                self._broker.goodbye(self._session)

    def cut(self) -> None:
        """Lose the link in both directions; the broker notices and publishes the will."""
        self.is_cut = True
        self._vanish()

    def mend(self) -> None:
        """Let the link work again."""
        self.is_cut = False

    def hand_over(self, session: Session, message: Message) -> None:
        """Deliver what the broker sends, after the link's delay."""
        self._loop.call_later(self.delay_s, self._arrive, session, message, context=self._context)

    def session_ended(self, session: Session) -> None:
        """Learn that the session is over."""
        if session.presence is not None:
            self._wills.append(session.presence.will)
        if self._session is session:
            self._session = None
            self._ended.set()

    def _connect(self) -> None:
        self._ended.clear()
        self.connections_total += 1
        presence = self._presence(self.connections_total) if self._presence else None
        session = Session(bus=self, presence=presence)
        self._broker.connect(session)
        self._session = session
        own = () if presence is None else (presence.topic,)
        for pattern in dict.fromkeys((*own, *(pattern for pattern, _ in self._subscriptions))):
            self._broker.subscribe(session, pattern)
        if presence is not None and presence.here:
            self._kept[presence.topic] = presence.here
        for topic, payload in self._kept.items():
            self._send(topic, payload, retain=True)
        while self._waiting:
            self._send(*self._waiting.popleft(), retain=False)
        for call in self._calls:
            call()

    def _send(self, topic: str, payload: bytes, *, retain: bool) -> None:
        session = self._session
        if session is not None:
            world = contextvars.Context()
            self._loop.call_later(self.delay_s, self._reach, session, topic, payload, retain, context=world)

    def _reach(self, session: Session, topic: str, payload: bytes, retain: bool) -> None:
        if self._broker.has(session):
            self._broker.publish(topic, payload, retain=retain)

    def _arrive(self, session: Session, message: Message) -> None:
        if self._session is not session:
            return
        here = session.presence
        if here is not None and here.here and message.topic == here.topic and message.payload in self._wills:
            self.keep(here.topic, here.here)
        for pattern, receive in tuple(self._subscriptions):
            if matches(pattern, message.topic):
                receive(message)

    def _vanish(self) -> None:
        if self._session is not None:
            self._broker.lose(self._session)
