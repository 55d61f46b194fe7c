"""What the scaler hears: the head with a deadline, the nodes through bounds. Nothing here raises."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.kit.scaler import CLUSTER, HERD, ONE, state

from gpuherd.bus import Message
from gpuherd.errors import HeadUnreachable, TokenRefused
from gpuherd.health import Action, Severity, Verdict
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import ClusterName, HoldId, NodeName
from gpuherd.phases import Phase
from gpuherd.ray import ClusterSight
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Document, Online, State, Witness
from gpuherd_autoscaler import sources
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.snapshot import Freshness
from gpuherd_autoscaler.sources import Inbox, SightReader
from gpuherd_sim.virtual_time import VirtualClock, VirtualLoop, run

SIGHT = ClusterSight(session="s")


class Head:
    """Answers, refuses or hangs, as told."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.hangs = False

    async def sight(self) -> ClusterSight:
        if self.hangs:
            await asyncio.sleep(1_000.0)
        if self.trouble is not None:
            raise self.trouble
        return SIGHT


def test_a_head_that_fails_leaves_its_last_answer_marked_as_failed_with_its_age() -> None:
    async def main(loop: VirtualLoop) -> None:
        head, clock = Head(), VirtualClock(loop)
        reader = SightReader(head.sight, clock, deadline_s=4.0)
        fresh = await reader.read()
        assert (fresh.value, fresh.freshness, fresh.read_at) == (SIGHT, Freshness.FRESH, 0.0)
        await asyncio.sleep(5.0)
        head.trouble = TokenRefused("the head refuses our token")
        failed = await reader.read()
        assert (failed.value, failed.freshness, failed.read_at) == (SIGHT, Freshness.FAILED, 0.0)
        assert failed.fresh is None
        assert "token" in failed.error
        head.trouble = None
        again = await reader.read()
        assert (again.freshness, again.read_at, again.error) == (Freshness.FRESH, 5.0, "")

    run(main, until_s=100)


def test_a_head_that_hangs_costs_its_deadline_and_no_more() -> None:
    async def main(loop: VirtualLoop) -> None:
        head = Head()
        head.hangs = True
        reader = SightReader(head.sight, VirtualClock(loop), deadline_s=4.0)
        sight = await reader.read()
        assert loop.time() == 4.0
        assert (sight.value, sight.fresh) == (None, None)
        assert sight.error == "no answer within 4 s"

    run(main, until_s=100)


def test_before_the_first_answer_nothing_is_known_and_a_failure_does_not_invent_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        head = Head()
        head.trouble = HeadUnreachable("refused")
        reader = SightReader(head.sight, VirtualClock(loop), deadline_s=4.0)
        assert reader.last.fresh is None
        assert (await reader.read()).value is None

    run(main, until_s=100)


class Ear:
    """An inbox with what it told."""

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.news = 0
        self.inbox = Inbox(self.inventory, Still(), CLUSTER, on_news=self._heard, listed=HERD.names)

    def _heard(self) -> None:
        self.news += 1

    def hear(self, document: Document, leaf: str = "state", *, node: NodeName = ONE) -> None:
        self.receive(topics.node(CLUSTER, node, leaf), encode(document))

    def receive(self, topic: str, payload: bytes, *, retained: bool = False) -> None:
        self.inbox.receive(Message(topic=topic, payload=payload, retained=retained))


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return 50.0

    def boot_s(self) -> float:
        return 50.0

    def wall(self) -> float:
        return 50.0

    async def sleep_until(self, deadline: float) -> None:
        raise AssertionError(deadline)


STATE = topics.node(CLUSTER, ONE, "state")
ONLINE = topics.node(CLUSTER, ONE, "online")
HERE = Online(cluster=CLUSTER, node=ONE, epoch=2, conn=2, online=True)
HELD = Hold(id=HoldId("a"), owner="user:ann", kind=HoldKind.DRAIN, reason="fan", since=0.0)


def with_(document: State, **changed: object) -> State:
    return msgspec.structs.replace(document, **changed)


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        pytest.param(STATE, b"\xff\x00", "syntax", id="bytes"),
        pytest.param(STATE, b"[]", "fields", id="a list"),
        pytest.param(STATE, b"[" * 5_000, "depth", id="deep"),
        pytest.param(STATE, b'{"v":1,"v":1}', "duplicate_key", id="a key twice"),
        pytest.param(STATE, b'{"v":1,"seq":NaN}', "number", id="NaN"),
        pytest.param(STATE, b'{"v":9}', "version", id="another version"),
        pytest.param(STATE, b'{"v":1}', "fields", id="fields lack"),
        pytest.param(STATE, b" " * 65_537, "oversize", id="oversize state"),
        pytest.param(ONLINE, b" " * 4_097, "oversize", id="oversize presence"),
        pytest.param(STATE, encode(HERE), "fields", id="a presence as a state"),
        pytest.param(STATE, encode(state(NodeName("n-2"))), "wrong_topic", id="another node's state"),
        pytest.param(
            STATE, encode(with_(state(), cluster=ClusterName("other"))), "wrong_topic", id="another cluster's"
        ),
        pytest.param(
            topics.node(CLUSTER, NodeName("n-2"), "online"), encode(HERE), "wrong_topic", id="its presence"
        ),
        pytest.param(STATE, encode(state(epoch=2, seq=4)), "older", id="an older state"),
        pytest.param(STATE, encode(state(epoch=1, seq=9)), "older", id="a state of an earlier run"),
        pytest.param(
            ONLINE, encode(msgspec.structs.replace(HERE, conn=1, online=False)), "older", id="an older will"
        ),
    ],
)
def test_what_is_no_news_of_the_node_changes_nothing_and_is_counted(
    topic: str, payload: bytes, reason: str
) -> None:
    ear = Ear()
    ear.hear(state(epoch=2, seq=5))
    ear.hear(HERE, "online")
    before = (ear.inventory.state(ONE), ear.inventory.online(ONE), ear.news)
    ear.receive(topic, payload)
    assert (ear.inventory.state(ONE), ear.inventory.online(ONE), ear.news) == before
    assert dict(ear.inbox.garbage) == {reason: 1}


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        pytest.param(STATE, b"", id="a cleared topic"),
        pytest.param("gpuherd/v1/other/node/n-1/state", b"x", id="another cluster's topic"),
        pytest.param("gpuherd/v1/herd/node/BAD/state", b"x", id="a topic outside the grammar"),
        pytest.param(STATE, encode(state(epoch=2, seq=5)), id="the same again, as after a reconnect"),
    ],
)
def test_what_is_not_meant_for_us_or_known_is_passed_over(topic: str, payload: bytes) -> None:
    ear = Ear()
    ear.hear(state(epoch=2, seq=5))
    ear.receive(topic, payload)
    assert (ear.news, dict(ear.inbox.garbage)) == (1, {})


@pytest.mark.parametrize(
    ("changed", "is_news"),
    [
        pytest.param({}, False, id="a heartbeat"),
        pytest.param({"sent_at": 9.0, "reason": "x"}, False, id="words"),
        pytest.param({"phase": Phase.DRAINING}, True, id="phase"),
        pytest.param({"holds": (HELD,)}, True, id="holds"),
        pytest.param({"serve": False}, True, id="serve"),
        pytest.param({"wants_drain": "no slot"}, True, id="wants to drain"),
        pytest.param({"witness": Witness(ray_workers=1)}, True, id="work began"),
        pytest.param({"epoch": 3, "seq": 1}, True, id="a new run"),
        pytest.param(
            {"verdict": Verdict(severity=Severity.CRITICAL, action=Action.DRAIN)}, True, id="verdict"
        ),
    ],
)
def test_the_loop_is_woken_by_what_could_change_a_decision(changed: dict[str, object], is_news: bool) -> None:
    ear = Ear()
    ear.hear(state(epoch=2, seq=5))
    ear.hear(with_(state(epoch=2, seq=6), **changed))
    assert ear.news == 1 + is_news


def test_strangers_are_bounded_and_never_deafen_us_to_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MAX_NAMES", 3)
    ear = Ear()
    for number in range(1, 6):
        stranger = NodeName(f"stranger-{number}")
        ear.hear(state(stranger), node=stranger)
    assert dict(ear.inbox.garbage) == {"too_many_names": 2}
    ear.hear(state(ONE))
    assert ear.inventory.state(ONE) is not None
    known = NodeName("stranger-1")
    ear.hear(state(known, seq=2), node=known)
    assert dict(ear.inbox.garbage) == {"too_many_names": 2}


def test_a_retained_state_tells_facts_and_no_time() -> None:
    ear = Ear()
    ear.receive(STATE, encode(state()), retained=True)
    assert ear.inventory.state(ONE) == state()
    assert not ear.inventory._heard_at


@pytest.mark.parametrize("leaf", ["state", "online"])
def test_it_listens_to_every_nodes_state_and_presence(leaf: str) -> None:
    heard: dict[str, Callable[[Message], None]] = {}

    class Bus:
        def subscribe(self, pattern: str, receive: Callable[[Message], None]) -> None:
            heard[pattern] = receive

    Ear().inbox.listen(Bus())  # type: ignore[arg-type]
    assert topics.every_node(CLUSTER, leaf) in heard
