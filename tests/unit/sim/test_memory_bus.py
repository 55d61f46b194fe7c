"""The broker in memory keeps the promises of gpuherd.bus, and no more."""

import asyncio
import random

import pytest

from gpuherd.bus import Message, Presence
from gpuherd_sim.memory_bus import Broker, MemoryBus, matches
from gpuherd_sim.process import Process
from gpuherd_sim.virtual_time import VirtualLoop, run


def _bus(broker: Broker, name: str = "") -> MemoryBus:
    def presence(number: int) -> Presence:
        return Presence(topic=f"{name}/online", here=b"here %d" % number, will=b"gone %d" % number)

    return MemoryBus(broker, rng=random.Random(name), presence=presence if name else None)  # noqa: S311


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        pytest.param("a/+/c", "a/b/c", True, id="one level"),
        pytest.param("a/+/c", "a/b/d/c", False, id="plus is one level only"),
        pytest.param("a/#", "a/b/c", True, id="the rest"),
        pytest.param("a/b", "a/b/c", False, id="no prefix match"),
    ],
)
def test_a_filter_matches_as_mqtt_says(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


def test_kept_values_reach_late_subscribers_and_survive_an_empty_broker() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[Message], dict[str, bytes]]:
        broker = Broker(loop)
        writer, reader = _bus(broker), _bus(broker)
        Process(loop, "writer", writer.run)
        await asyncio.sleep(1)
        writer.keep("t/state", b"1")
        await asyncio.sleep(1)
        seen: list[Message] = []
        reader.subscribe("t/+", seen.append)
        Process(loop, "reader", reader.run)
        await asyncio.sleep(1)
        broker.kill()
        await asyncio.sleep(5)
        broker.start(empty=True)
        await asyncio.sleep(30)
        return seen[:1], broker.retained

    seen, retained = run(main, until_s=100)
    assert seen == [Message(topic="t/state", payload=b"1", retained=True)]
    assert retained == {"t/state": b"1"}


def test_the_will_of_a_killed_client_is_published_and_its_kept_state_stays() -> None:
    async def main(loop: VirtualLoop) -> dict[str, bytes]:
        broker = Broker(loop)
        bus = _bus(broker, "n")
        bus.keep("n/state", b"serving")
        process = Process(loop, "n", bus.run)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(10)
        return dict(broker.retained)

    assert run(main, until_s=100) == {"n/online": b"gone 1", "n/state": b"serving"}


def test_a_broker_that_goes_down_publishes_no_will() -> None:
    async def main(loop: VirtualLoop) -> list[bytes]:
        broker = Broker(loop)
        said: list[bytes] = []
        broker.watchers.append(lambda _, payload: said.append(payload))
        Process(loop, "n", _bus(broker, "n").run)
        await asyncio.sleep(1)
        broker.kill()
        broker.start(empty=False)
        await asyncio.sleep(20)
        return list(said)

    assert run(main, until_s=100) == [b"here 1", b"here 2"]


def test_a_late_will_of_an_own_session_is_answered_by_saying_here_again() -> None:
    async def main(loop: VirtualLoop) -> dict[str, bytes]:
        broker = Broker(loop)
        bus = _bus(broker, "n")
        Process(loop, "n", bus.run)
        await asyncio.sleep(1)
        bus.cut()
        bus.mend()
        await asyncio.sleep(20)
        broker.publish("n/online", b"gone 1", retain=True)
        await asyncio.sleep(1)
        return dict(broker.retained)

    assert run(main, until_s=100) == {"n/online": b"here 2"}


def test_a_client_that_leaves_says_so_itself() -> None:
    async def main(loop: VirtualLoop) -> dict[str, bytes]:
        broker = Broker(loop)
        session = asyncio.create_task(_bus(broker, "n").run())
        await asyncio.sleep(1)
        session.cancel()
        await asyncio.sleep(1)
        return dict(broker.retained)

    assert run(main, until_s=100) == {"n/online": b"gone 1"}


def test_what_is_told_while_away_waits_up_to_a_thousand() -> None:
    async def main(loop: VirtualLoop) -> list[bytes]:
        broker = Broker(loop)
        said: list[bytes] = []
        broker.watchers.append(lambda _, payload: said.append(payload))
        bus = _bus(broker)
        for number in range(1_001):
            bus.tell("t", b"%d" % number)
        Process(loop, "n", bus.run)
        await asyncio.sleep(1)
        return list(said)

    said = run(main, until_s=100)
    assert (len(said), said[0], said[-1]) == (1_000, b"1", b"1000")


def test_a_stopped_client_keeps_its_session_and_hears_later() -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        broker = Broker(loop)
        bus = _bus(broker)
        seen: list[float] = []
        bus.subscribe("t", lambda _: seen.append(loop.time()))
        process = Process(loop, "n", bus.run)
        await asyncio.sleep(1)
        process.stop()
        broker.publish("t", b"x", retain=False)
        await asyncio.sleep(9)
        process.resume()
        await asyncio.sleep(1)
        return seen

    assert run(main, until_s=100) == [10.0]
