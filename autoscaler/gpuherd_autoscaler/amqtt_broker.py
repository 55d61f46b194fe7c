"""amqtt's broker with three cures; each names what amqtt 0.12.1 does without it.

It reads the keepalive and does nothing when it expires (BrokerProtocolHandler has an empty
``handle_read_timeout``), so the last will of a half-open client never comes. It hands each new client the
retained values of *everybody's* subscriptions. And it retains without bound.
"""

import functools
from typing import Final

from amqtt.adapters import ReaderAdapter, WriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerConfig
from amqtt.errors import BrokerError
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.session import Session

__all__ = ["BrokerError", "LoopbackBroker"]

MAX_BYTES: Final = 65_536
_MAX_CONNECTIONS: Final = 2_000
_SESSION_EXPIRY_S: Final = 3_600
"""amqtt keeps sessions for ever unless told (its issues 14 and 123: memory grew to 8 GB)."""
_GRACE_S: Final = 2
"""Added by amqtt to each client's keepalive, since a ping may be on its way."""


class LoopbackBroker(Broker):
    """Anonymous; ``dropped`` counts retained values that were too many or too large."""

    def __init__(self, *, host: str, port: int, max_retained: int) -> None:
        super().__init__(
            BrokerConfig(
                listeners={
                    "default": ListenerConfig(bind=f"{host}:{port}", max_connections=_MAX_CONNECTIONS)
                },
                plugins={"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
                session_expiry_interval=_SESSION_EXPIRY_S,
                timeout_disconnect_delay=_GRACE_S,
            )
        )
        self.dropped = 0
        self._max_retained = max_retained

    async def retain_message(
        self,
        source_session: Session | None,
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None:
        """Retain within the bounds; clearing a topic is always allowed."""
        is_new = topic_name not in self.retained_messages
        if data and (len(data) > MAX_BYTES or (is_new and len(self.retained_messages) >= self._max_retained)):
            self.dropped += 1
            return
        await super().retain_message(source_session, topic_name, data, qos)

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        pattern, _ = subscription
        if any(subscriber is session for subscriber, _ in self.subscriptions.get(pattern, ())):
            await super()._publish_retained_messages_for_subscription(subscription, session)

    async def _initialize_client_session(
        self, reader: ReaderAdapter, writer: WriterAdapter, remote_address: str, remote_port: int
    ) -> tuple[BrokerProtocolHandler, Session]:
        handler, session = await super()._initialize_client_session(
            reader, writer, remote_address, remote_port
        )
        handler.handle_read_timeout = functools.partial(_end_session, handler)
        return handler, session


def _end_session(handler: BrokerProtocolHandler) -> None:
    """Do what amqtt does when a connection breaks: the client's loop then publishes the will."""
    waiter = handler._disconnect_waiter  # noqa: SLF001
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
