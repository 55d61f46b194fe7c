"""The embedded broker's own rules; how it serves clients is tested with the broker door."""

import socket
import subprocess
import sys

import aiomqtt
import pytest
from tests.kit.broker import free_port

from gpuherd.errors import ConfigInvalid
from gpuherd_autoscaler.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org", ""])  # noqa: S104
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        EmbeddedBroker(host=host)
    assert "broker.embedded_host" in caught.value.problems


async def test_a_taken_port_is_named_with_its_key() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        broker = EmbeddedBroker(port=port)
        with pytest.raises(ConfigInvalid) as caught:
            await broker.start()
    assert f"port {port} on 127.0.0.1 is taken" in caught.value.problems["broker.embedded_port"]
    await broker.stop()


async def test_retained_topics_are_bounded_and_a_known_one_can_still_change() -> None:
    broker = EmbeddedBroker(port=free_port(), max_retained=2)
    await broker.start()
    try:
        async with aiomqtt.Client("127.0.0.1", broker.port, identifier="w") as client:
            for topic, value in (("t/a", "1"), ("t/b", "1"), ("t/c", "1"), ("t/a", "2")):
                await client.publish(topic, value, qos=1, retain=True)
        async with aiomqtt.Client("127.0.0.1", broker.port, identifier="r") as client:
            await client.subscribe("t/#", qos=1)
            messages = client.messages
            found = [await anext(messages) for _ in range(2)]
        assert {(m.topic.value, m.payload) for m in found} == {("t/a", b"2"), ("t/b", b"1")}
        assert broker.dropped == 1
    finally:
        await broker.stop()


async def test_a_newcomer_is_told_only_what_it_subscribed_to() -> None:
    broker = EmbeddedBroker(port=free_port())
    await broker.start()
    try:
        async with aiomqtt.Client("127.0.0.1", broker.port, identifier="all") as first:
            await first.subscribe("t/#", qos=1)
            await first.publish("t/a", "1", qos=1, retain=True)
            async with aiomqtt.Client("127.0.0.1", broker.port, identifier="new") as newcomer:
                await newcomer.subscribe("other", qos=1)
                await first.publish("other", "2", qos=1)
                message = await anext(newcomer.messages)
                assert (message.topic.value, message.payload) == ("other", b"2")
    finally:
        await broker.stop()


def test_the_autoscaler_imports_no_amqtt_until_it_embeds_a_broker() -> None:
    program = (
        "import sys, gpuherd_autoscaler.embedded_broker as e\n"
        "e.EmbeddedBroker()\n"
        "assert 'amqtt' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
