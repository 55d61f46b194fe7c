"""One aiomqtt client for one session, and what aiomqtt 2.5 leaves for its user to look after."""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

import aiomqtt

from gpuherd.broker_settings import BrokerSettings, parse_url
from gpuherd.bus import Presence

QOS: Final = 1
_MAX_UNREAD: Final = 1_000
_FIRST_REFUSAL: Final = 0x80
"""SUBACK codes from here on are refusals. Source: MQTT 3.1.1, section 3.9.3."""


def _new_client(settings: BrokerSettings, client_id: str, presence: Presence | None) -> aiomqtt.Client:
    """Return a client to be used once: reusing one across broker restarts flaps (aiomqtt issue 288)."""
    host, port = parse_url(settings.url)
    will = None
    if presence is not None:
        will = aiomqtt.Will(presence.topic, presence.will, qos=QOS, retain=True)
    # The door logs edges; the library would add a line for each pending call and each late goodbye.
    quiet = logging.getLogger("gpuherd.aiomqtt")
    quiet.setLevel(logging.CRITICAL + 1)
    return aiomqtt.Client(
        host,
        port,
        username=settings.username or None,
        password=settings.password.text if settings.password else None,
        identifier=client_id,
        protocol=aiomqtt.ProtocolVersion.V311,
        clean_session=True,
        will=will,
        timeout=settings.timeout_s,
        keepalive=settings.keepalive_s,
        max_queued_incoming_messages=_MAX_UNREAD,
        logger=quiet,
    )


@contextlib.asynccontextmanager
async def session(
    settings: BrokerSettings, client_id: str, presence: Presence | None
) -> AsyncIterator[aiomqtt.Client]:
    """Connect a new client; raises MqttError when the broker does not welcome it.

    Leaving never waits: the goodbye is sent if the socket takes it, and the socket is closed. (aiomqtt's
    own end waits for ``timeout_s`` on a frozen broker, and leaves the socket open when the CONNACK is
    late, so that a late welcome would make a second session under our name.)
    """
    client = _new_client(settings, client_id, presence)
    try:
        await client.__aenter__()
        yield client
    finally:
        client._client.disconnect()  # noqa: SLF001
        ended = client._disconnected  # noqa: SLF001
        if ended.done() and not ended.cancelled():
            ended.exception()  # seen; else asyncio reports it as an error that nobody looked at


def require_socket(client: aiomqtt.Client) -> None:
    """Raise MqttCodeError when the connection is gone already.

    aiomqtt 2.5 forgets a disconnect that comes between the CONNACK and its own wake-up, and would then
    stand for ever on a closed socket (measured with two clients of one id).
    """
    if client._client.socket() is None:  # noqa: SLF001
        raise aiomqtt.MqttCodeError(None, "the broker closed the connection")


def is_refused(code: object) -> bool:
    """Say whether a subscription's answer is a refusal."""
    value = getattr(code, "value", code)
    return isinstance(value, int) and value >= _FIRST_REFUSAL
