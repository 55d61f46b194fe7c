"""The broker door against real brokers: each test runs on mosquitto and on the embedded amqtt."""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from structlog.testing import capture_logs
from tests.kit.broker import KINDS, BrokerUnderTest, Mosquitto, free_port, running, until
from tests.kit.mqtt_client import presence

from gpuherd.broker_settings import BrokerSettings, parse_url
from gpuherd.bus import Message, Presence
from gpuherd.outbox import RING
from gpuherd.shell.broker import MAX_BYTES, MqttBus
from gpuherd.shell.broker_failure import Why
from gpuherd.shell.clock import Clock, SystemClock

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BrokerUnderTest]:
    async with running(request.param, tmp_path) as started:
        yield started


def bus_to(
    url: str,
    client_id: str,
    *,
    keepalive_s: int = 2,
    presence: Callable[[int], Presence] | None = None,
    clock: Clock | None = None,
) -> MqttBus:
    settings = BrokerSettings(
        url=url, keepalive_s=keepalive_s, timeout_s=3.0, reconnect_first_s=0.1, reconnect_cap_s=0.3
    )
    rng = random.Random(7)  # noqa: S311
    return MqttBus(settings, client_id=client_id, clock=clock or SystemClock(), rng=rng, presence=presence)


@contextlib.asynccontextmanager
async def connected(*buses: MqttBus) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bus.run()) for bus in buses]
        await until(lambda: all(bus.is_connected for bus in buses))
        yield
        for task in tasks:
            task.cancel()


class GatedClock(SystemClock):
    """Sleeps until the test opens the gate."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def sleep_until(self, deadline: float) -> None:
        await self.opened.wait()
        await super().sleep_until(deadline)


class Heard:
    """Messages in the order of their arrival."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


async def retained(url: str, topic: str, *, within_s: float = 2.0) -> bytes | None:
    """Return what a newcomer is told about a topic."""
    host, port = parse_url(url)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s), aiomqtt.Client(host, port) as client:
            await client.subscribe(topic, qos=1)
            async for message in client.messages:
                return bytes(message.payload) if isinstance(message.payload, bytes) else None
    return None


@contextlib.asynccontextmanager
async def client_process(url: str, client_id: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kit.mqtt_client", url, client_id
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_what_one_keeps_another_is_told_even_later(broker: BrokerUnderTest) -> None:
    writer, reader, heard = bus_to(broker.url, "w"), bus_to(broker.url, "r"), Heard()
    reader.subscribe("t/+/state", heard)
    async with connected(writer):
        writer.keep("t/a/state", b"one")
        writer.keep("t/a/state", b"two")
        async with connected(reader):
            await until(lambda: heard.payloads[-1:] == [b"two"])
            writer.keep("t/b/state", b"three")
            await until(lambda: heard.payloads[-1:] == [b"three"])


async def test_kept_values_stand_again_after_the_broker_restarted_empty(broker: BrokerUnderTest) -> None:
    writer = bus_to(broker.url, "w")
    calls: list[int] = []
    writer.on_connect(lambda: calls.append(writer.connects))
    writer.keep("t/a/state", b"one")
    async with connected(writer):
        await broker.stop()
        await until(lambda: not writer.is_connected)
        writer.keep("t/b/state", b"while away")
        await broker.start()
        await until(lambda: writer.connects == 2)
        assert await retained(broker.url, "t/a/state") == b"one"
        assert await retained(broker.url, "t/b/state") == b"while away"
        await until(lambda: calls == [1, 2])


async def test_an_outage_logs_its_two_edges_and_nothing_between(broker: BrokerUnderTest) -> None:
    with capture_logs() as lines:
        bus = bus_to(broker.url, "w")
        async with connected(bus):
            await broker.stop()
            await until(lambda: bus.tries >= 4)
            assert bus.why_lost is Why.UNREACHABLE
            await broker.start()
            await until(lambda: bus.is_connected)
            assert bus.why_lost is None
    events = [line["event"] for line in lines if line["event"].startswith("broker.")]
    assert events == ["broker.connected", "broker.lost", "broker.recovered"]


async def test_messages_told_while_away_arrive_after_the_reconnect(broker: BrokerUnderTest) -> None:
    gate = GatedClock()
    writer, reader, heard = bus_to(broker.url, "w", clock=gate), bus_to(broker.url, "r"), Heard()
    reader.subscribe("t/event", heard)
    async with connected(writer):
        await broker.stop()
        await until(lambda: not writer.is_connected)
        for number in range(5):
            writer.tell("t/event", b"%d" % number)
        await broker.start()
        # A told message is not retained: whom it shall reach must be there first.
        async with connected(reader):
            gate.opened.set()
            await until(lambda: len(heard.messages) == 5)
    assert heard.payloads == [b"0", b"1", b"2", b"3", b"4"]
    assert writer.dropped == {}


async def test_the_ring_holds_a_thousand_told_messages(broker: BrokerUnderTest) -> None:
    bus, reader, heard = bus_to(broker.url, "w"), bus_to(broker.url, "r"), Heard()
    reader.subscribe("t/event", heard)
    for number in range(RING + 5):
        bus.tell("t/event", b"%d" % number)
    async with connected(reader), connected(bus):
        await until(lambda: len(heard.messages) == RING)
    assert heard.payloads[0] == b"5"
    assert bus.dropped == {"ring": 5}


async def test_the_will_of_a_killed_client_is_published_and_stays(broker: BrokerUnderTest) -> None:
    heard = Heard()
    reader = bus_to(broker.url, "r")
    reader.subscribe("t/victim/online", heard)
    async with connected(reader), client_process(broker.url, "victim") as process:
        await until(lambda: heard.payloads == [b"here 1"])
        process.kill()
        await until(lambda: heard.payloads == [b"here 1", b"gone 1"])
        assert await retained(broker.url, "t/victim/online") == b"gone 1"


async def test_the_will_of_a_half_open_client_comes_after_the_keepalive(broker: BrokerUnderTest) -> None:
    heard = Heard()
    reader = bus_to(broker.url, "r")
    reader.subscribe("t/frozen/online", heard)
    async with connected(reader), client_process(broker.url, "frozen") as process:
        await until(lambda: heard.payloads == [b"here 1"])
        process.send_signal(signal.SIGSTOP)
        await until(lambda: heard.payloads == [b"here 1", b"gone 1"])
        process.send_signal(signal.SIGCONT)
        await until(lambda: heard.payloads[-1] not in {b"here 1", b"gone 1"})
        assert heard.payloads[-1].startswith(b"here")


async def test_an_orderly_end_leaves_our_own_word_and_what_was_still_waiting(broker: BrokerUnderTest) -> None:
    bus = bus_to(broker.url, "w", presence=lambda number: presence("w", number))
    async with connected(bus):
        assert await retained(broker.url, "t/w/online") == b"here 1"
        bus.keep("t/w/state", b"last words")
    assert await retained(broker.url, "t/w/online") == b"gone 1"
    assert await retained(broker.url, "t/w/state") == b"last words"


async def test_a_late_will_of_an_earlier_session_is_written_over(broker: BrokerUnderTest) -> None:
    bus = bus_to(broker.url, "w", presence=lambda number: presence("w", number))
    host, port = parse_url(broker.url)
    async with connected(bus):
        await broker.stop()
        await until(lambda: not bus.is_connected)
        await broker.start()
        await until(lambda: bus.is_connected)
        here = b"here %d" % bus.tries
        async with aiomqtt.Client(host, port) as other:
            await other.publish("t/w/online", b"gone 1", qos=1, retain=True)
            await other.subscribe("t/w/online", qos=1)
            async with asyncio.timeout(10):
                async for message in other.messages:
                    if message.payload == here:
                        break


async def test_oversize_messages_are_dropped_and_the_connection_stays(broker: BrokerUnderTest) -> None:
    bus, heard = bus_to(broker.url, "r"), Heard()
    bus.subscribe("t/#", heard)
    host, port = parse_url(broker.url)
    async with connected(bus), aiomqtt.Client(host, port) as other:
        await other.publish("t/big", b"x" * (MAX_BYTES + 1), qos=1)
        await other.publish("t/small", b"x" * MAX_BYTES, qos=1)
        await until(lambda: len(heard.messages) == 1)
        bus.keep("t/big", b"x" * (MAX_BYTES + 1))
        assert bus.dropped == {"oversize": 1, "oversize_out": 1}
        assert bus.connects == 1


async def test_a_receiver_that_raises_costs_nobody_the_connection(broker: BrokerUnderTest) -> None:
    bus, heard = bus_to(broker.url, "r"), Heard()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def stumble(message: Message) -> None:
        raise RuntimeError(message.topic)

    bus.subscribe("t/#", stumble)
    bus.subscribe("t/+", heard)
    async with connected(bus):
        bus.tell("t/one", b"1")
        await until(lambda: bool(heard.messages) and bool(reported))
        assert bus.is_connected
        assert bus.connects == 1


async def test_a_frozen_broker_blocks_no_caller_and_is_noticed(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    await broker.start()
    bus = bus_to(broker.url, "w", keepalive_s=1)
    try:
        async with connected(bus):
            broker.freeze()
            for number in range(100):
                bus.keep("t/state", b"%d" % number)
            assert bus.is_connected
            await until(lambda: not bus.is_connected)
            assert bus.why_lost is Why.SILENT
    finally:
        await broker.stop()


async def test_a_frozen_broker_does_not_hold_up_our_end(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    await broker.start()
    settings = BrokerSettings(url=broker.url, keepalive_s=600, timeout_s=600.0)
    bus = MqttBus(
        settings,
        client_id="w",
        clock=SystemClock(),
        rng=random.Random(7),  # noqa: S311
        presence=lambda number: presence("w", number),
    )
    try:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            task = group.create_task(bus.run())
            await until(lambda: bus.is_connected)
            broker.freeze()
            task.cancel()
        assert task.cancelled()
    finally:
        await broker.stop()


async def test_two_clients_of_one_name_stand_back_after_three_takeovers(tmp_path: Path) -> None:
    async with running("mosquitto", tmp_path) as broker:
        with capture_logs() as lines:
            twins = [bus_to(broker.url, "same") for _ in range(2)]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(bus.run()) for bus in twins]
                await until(lambda: any(line["event"] == "broker.session_contested" for line in lines))
                for task in tasks:
                    task.cancel()
    contested = next(line for line in lines if line["event"] == "broker.session_contested")
    assert contested["wait_s"] >= 60
    assert max(bus.takeovers.total for bus in twins) == 3


async def test_a_broker_that_wants_a_password_is_told_from_one_that_is_gone(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "locked.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous false\nlog_dest none\n")
    process = await asyncio.create_subprocess_exec("mosquitto", "-c", str(config))
    bus = bus_to(f"mqtt://127.0.0.1:{port}", "w")
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(bus.run())
            await until(lambda: bus.why_lost is Why.NOT_AUTHORIZED)
            task.cancel()
    finally:
        process.kill()
        await process.wait()
