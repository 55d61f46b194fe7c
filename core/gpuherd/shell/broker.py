"""The one door to MQTT: implements ``gpuherd.bus.Bus`` by aiomqtt and heals itself.

Speaks MQTT 3.1.1, which mosquitto, amqtt and NATS all understand. Nothing is decoded or decided here.
A broker's acknowledgement proves nothing: it also acknowledges what its access list then drops.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable
from typing import Final

import aiomqtt

from gpuherd import backoff
from gpuherd.broker_settings import BrokerSettings
from gpuherd.bus import Message, Presence, Receive
from gpuherd.edges import Edge, Fell, Rose
from gpuherd.outbox import Outbox
from gpuherd.shell import logs
from gpuherd.shell.broker_client import QOS, is_refused, require_socket, session
from gpuherd.shell.broker_failure import Why, leaf, why
from gpuherd.shell.clock import Clock

MAX_BYTES: Final = 65_536
"""No document of ours is larger; brokers are configured with the same bound."""

_LEAVE_S: Final = 1.0
_WILLS_REMEMBERED: Final = 16

log = logs.get("gpuherd.broker")


class MqttBus:
    """A connection that heals itself; see ``gpuherd.bus.Bus`` for what each method promises.

    ``presence`` is asked before each try with the number of that try, so that a will of an earlier one
    can be told from this one's. Deliveries are at least once: a receiver must bear doubles. A receiver
    that raises is reported by the loop's exception handler and costs nobody the connection.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        client_id: str,
        clock: Clock,
        rng: random.Random,
        presence: Callable[[int], Presence] | None = None,
        takeovers: backoff.Takeovers | None = None,
    ) -> None:
        self.connects = 0
        """Sessions that stood, since the start."""
        self.tries = 0
        self.why_lost: Why | None = None
        """Why there is no session now; None while one stands or before the first try."""
        self.takeovers = takeovers or backoff.Takeovers()
        self._settings = settings
        self._client_id = client_id
        self._clock = clock
        self._rng = rng
        self._presence = presence
        self._outbox = Outbox(max_bytes=MAX_BYTES)
        self._receivers: list[tuple[str, Receive]] = []
        self._on_connect: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._wills: deque[bytes] = deque(maxlen=_WILLS_REMEMBERED)
        self._here: Presence | None = None
        self._edge = Edge()
        self._is_connected = False

    @property
    def is_connected(self) -> bool:
        """Say whether a session stands, its subscriptions made and all kept values published."""
        return self._is_connected

    @property
    def dropped(self) -> dict[str, int]:
        """Messages dropped since the start, by ``oversize, oversize_out, ring, undelivered``."""
        return dict(self._outbox.dropped)

    def keep(self, topic: str, payload: bytes) -> None:
        """Make ``payload`` the retained value of ``topic``; only the newest of a topic is sent."""
        self._outbox.keep(topic, payload)
        self._wake.set()

    def tell(self, topic: str, payload: bytes) -> None:
        """Publish once, not retained; kept in a ring of 1,000 while away."""
        self._outbox.tell(topic, payload)
        self._wake.set()

    def subscribe(self, pattern: str, receive: Receive) -> None:
        """Hand every message under ``pattern`` to ``receive``, from the next connect on."""
        self._receivers.append((pattern, receive))

    def on_connect(self, call: Callable[[], None]) -> None:
        """Call back after each connect."""
        self._on_connect.append(call)

    async def run(self) -> None:
        """Connect and reconnect until cancelled; then say goodbye within a second and disconnect."""
        failed_in_a_row = 0
        while True:
            connects = self.connects
            error = await self._session()
            now = self._clock.now()
            self.why_lost = why(error)
            self._log(error, now=now)
            failed_in_a_row = 0 if self.connects > connects else failed_in_a_row + 1
            await self._clock.sleep_until(now + self._delay_s(failed_in_a_row, now))

    def _delay_s(self, failed_in_a_row: int, now: float) -> float:
        limits = backoff.Limits(
            first_s=self._settings.reconnect_first_s, cap_s=self._settings.reconnect_cap_s
        )
        delay_s = backoff.next_delay(failed_in_a_row, limits, self._rng)
        if self.why_lost is Why.CLOSED and self.takeovers.step(now):
            delay_s += self.takeovers.window_s
            log.error("broker.session_contested", client_id=self._client_id, wait_s=round(delay_s, 1))
        return delay_s

    async def _session(self) -> BaseException | None:
        """Run one session until it breaks and return what broke it."""
        self.tries += 1
        presence = self._presence(self.tries) if self._presence else None
        failure: BaseException | None = None
        try:
            async with session(self._settings, self._client_id, presence) as client:
                await self._stand(client, presence)
        except* aiomqtt.MqttError as group:
            failure = leaf(group)
        finally:
            self._is_connected = False
            if presence is not None:
                self._wills.append(presence.will)
        return failure

    async def _stand(self, client: aiomqtt.Client, presence: Presence | None) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._receive(client))
                await self._introduce(client, presence)
                self._connected()
                while True:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._settings.keepalive_s):
                            await self._wake.wait()
                    await self._drain(client)
                    require_socket(client)
        except asyncio.CancelledError:
            await self._leave(client, presence)
            raise

    async def _introduce(self, client: aiomqtt.Client, presence: Presence | None) -> None:
        """Subscribe first, so that the values retained before ours are seen before ours replace them."""
        require_socket(client)
        own = () if presence is None else (presence.topic,)
        for pattern in dict.fromkeys((*own, *(pattern for pattern, _ in self._receivers))):
            granted = await client.subscribe(pattern, qos=QOS)
            if any(is_refused(code) for code in granted):
                log.error("broker.subscription_refused", pattern=pattern, client_id=self._client_id)
        self._here = presence
        if presence is not None and presence.here:
            self._outbox.keep(presence.topic, presence.here)
        self._outbox.connected()
        await self._drain(client)

    def _connected(self) -> None:
        self._is_connected = True
        self.connects += 1
        self.why_lost = None
        self._log(None, now=self._clock.now())
        loop = asyncio.get_running_loop()
        for call in self._on_connect:
            loop.call_soon(call)

    async def _drain(self, client: aiomqtt.Client) -> None:
        self._wake.clear()
        while (sent := self._outbox.take()) is not None:
            is_confirmed = False
            try:
                await client.publish(sent.topic, sent.payload, qos=QOS, retain=sent.retain)
                is_confirmed = True
            finally:
                if not is_confirmed:
                    self._outbox.give_back(sent)

    async def _receive(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            payload = message.payload
            if not isinstance(payload, bytes) or len(payload) > MAX_BYTES:
                self._outbox.dropped["oversize"] += 1
                continue
            self._hand_out(message, payload)

    def _hand_out(self, message: aiomqtt.Message, payload: bytes) -> None:
        topic = message.topic.value
        here = self._here
        if here is not None and here.here and topic == here.topic and payload in self._wills:
            # The broker noticed an old session's end only now and published its will over our word.
            self.keep(topic, here.here)
        handed = Message(topic=topic, payload=payload, retained=message.retain)
        loop = asyncio.get_running_loop()
        for pattern, receive in self._receivers:
            if message.topic.matches(pattern):
                loop.call_soon(receive, handed)

    async def _leave(self, client: aiomqtt.Client, presence: Presence | None) -> None:
        """Send what waits and our own end: a clean disconnect makes the broker forget the will."""
        with contextlib.suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._drain(client)
                if presence is not None and presence.here:
                    await client.publish(presence.topic, presence.will, qos=QOS, retain=True)

    def _log(self, error: BaseException | None, *, now: float) -> None:
        is_first = self.connects == 1 and error is None
        match self._edge.step(ok=error is None, now=now):
            case Fell():
                log.warning("broker.lost", endpoint=self._settings.url, reason=why(error), error=str(error))
            case Rose() as rose:
                log.info(
                    "broker.recovered",
                    endpoint=self._settings.url,
                    outage_s=round(rose.lasted_s, 3),
                    tries=rose.tries,
                )
            case None if is_first:
                log.info("broker.connected", endpoint=self._settings.url)
            case None:
                pass
