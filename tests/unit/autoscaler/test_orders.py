"""From an ask to the next order: what is carried on, what is lifted, and what is refused."""

import pytest
from tests.kit.scaler import CLUSTER, ONE, state

from gpuherd import holds
from gpuherd.errors import Refused
from gpuherd.fence import Mark
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import HoldId, OperationId, PoolName
from gpuherd.phases import Phase
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Desired, State
from gpuherd_autoscaler import orders
from gpuherd_autoscaler.ledger import Order
from gpuherd_autoscaler.orders import Ask, Frame

FRAME = Frame(cluster=CLUSTER, node=ONE, term=3, pool=PoolName("p"), pool_size=3, head=("h:6379",))
OP = OperationId("op-9")


def hold(name: str, owner: str = "user:ann", kind: HoldKind = HoldKind.DRAIN) -> Hold:
    return Hold(id=HoldId(name), owner=owner, kind=kind, reason=f"why {name}", since=0.0)


def order(*asks: Ask, said: State | None = None, frame: Frame = FRAME) -> Order:
    """Return the order after these asks, one by one, while the node says the same."""
    made = None
    for ask in (Ask(serve=True), *asks):
        made = orders.next_order(made, ask, said, frame)
    assert made is not None
    return made


def obeys(made: Order, *listed: Hold) -> State:
    mark = Mark(term=made.term, generation=made.generation, digest="x")
    return state(ONE, *listed, mark=mark)


def ids(made: Order) -> tuple[list[str], list[str]]:
    return [h.id for h in made.holds], list(made.lifted)


@pytest.mark.parametrize(
    ("said", "serves"),
    [
        pytest.param(None, False, id="never heard of"),
        pytest.param(state(phase=Phase.MEMBER), True, id="a member without orders"),
        pytest.param(state(phase=Phase.JOINING), True, id="one that joins without orders"),
        pytest.param(state(phase=Phase.OUTSIDE), False, id="outside without orders"),
        pytest.param(state(phase=Phase.DRAINING), False, id="draining without orders"),
    ],
)
def test_a_first_order_keeps_what_the_node_does(said: State | None, serves: bool) -> None:
    made = orders.next_order(None, Ask(add=(hold("a"),)), said, FRAME)
    assert (made.serve, made.mark, ids(made)) == (serves, (3, 1), (["a"], []))


def test_an_order_is_its_document_byte_for_byte() -> None:
    made = order(orders.drain(OP, hold("a")))
    document = decode(made.payload, Desired)
    assert (document.node, document.pool, document.pool_size) == (ONE, "p", 3)
    assert (document.term, document.generation) == made.mark
    assert (document.serve, document.holds, document.lifted) == (made.serve, made.holds, made.lifted)
    assert (document.op_id, document.reason, document.head) == (OP, "why a", ("h:6379",))


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(Ask(), id="nothing"),
        pytest.param(Ask(serve=True), id="what it does already"),
        pytest.param(Ask(add=(hold("a"),)), id="a hold that stands"),
        pytest.param(Ask(lift=(HoldId("b"),)), id="a lift that was asked"),
    ],
)
def test_an_ask_that_says_nothing_new_leaves_the_order_itself(ask: Ask) -> None:
    made = order(Ask(add=(hold("a"), hold("b"))), Ask(lift=(HoldId("b"),)))
    assert orders.next_order(made, ask, None, FRAME) is made


def test_a_new_term_writes_the_order_anew_and_changes_none_of_it() -> None:
    made = order(Ask(op_id=OP, add=(hold("a"), hold("b"))), Ask(lift=(HoldId("b"),)))
    later = Frame(cluster=CLUSTER, node=ONE, term=4, pool=PoolName("p"), pool_size=3)
    again = orders.next_order(made, Ask(), None, later)
    assert again.mark == (4, made.generation + 1)
    assert (again.serve, ids(again), again.op_id) == (made.serve, ids(made), OP)


def test_undrain_of_old_hold_keeps_new_one() -> None:
    made = order(Ask(add=(hold("old"),)), Ask(add=(hold("new"),)), Ask(lift=(HoldId("old"),)))
    assert ids(made) == (["new"], ["old"])


def test_direct_hold_survives_empty_desired() -> None:
    direct, health = hold("direct", "user:cas"), hold("h", holds.HEALTH, HoldKind.EVICT)
    said = state(ONE, direct, health)
    made = order(Ask(serve=True), said=said)
    assert ids(made) == ([], [])
    assert [h.id for h in orders.standing(made, said)] == ["h", "direct"]


@pytest.mark.parametrize(
    ("listed", "has_obeyed", "lifted"),
    [
        pytest.param((), False, ["a"], id="the node lags: carried"),
        pytest.param((hold("a"),), False, ["a"], id="the node lags and lists it: carried"),
        pytest.param((hold("a"),), True, ["a"], id="it obeys and still lists it: carried"),
        pytest.param((), True, [], id="it obeys and lists it no more: forgotten"),
    ],
)
def test_a_lift_is_carried_until_the_node_has_followed_it(
    listed: tuple[Hold, ...], has_obeyed: bool, lifted: list[str]
) -> None:
    made = order(Ask(add=(hold("a"),)), Ask(lift=(HoldId("a"),)))
    said = obeys(made, *listed) if has_obeyed else state(ONE, *listed)
    following = orders.next_order(made, Ask(add=(hold("b"),)), said, FRAME)
    assert ids(following) == (["b"], lifted)


def test_an_id_that_was_lifted_never_stands_again() -> None:
    made = order(Ask(add=(hold("a"),)), Ask(lift=(HoldId("a"),)))
    back = orders.next_order(made, Ask(add=(hold("a"),)), None, FRAME)
    assert ids(back) == ([], ["a"])


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        pytest.param(Ask(add=tuple(hold(f"h{i}") for i in range(65))), "65 holds", id="too many holds"),
        pytest.param(
            Ask(lift=tuple(HoldId(f"h{i}") for i in range(257))), "257 lifts", id="too many unconfirmed lifts"
        ),
    ],
)
def test_an_order_that_would_outgrow_its_document_is_refused(ask: Ask, text: str) -> None:
    with pytest.raises(Refused, match=text):
        order(ask)


def test_the_largest_order_fits_its_document() -> None:
    made = order(
        Ask(
            reason="r" * 5_000,
            add=tuple(hold(f"h{i}") for i in range(64)),
            lift=tuple(HoldId(f"l{i}") for i in range(256)),
        )
    )
    assert len(decode(made.payload, Desired).reason) == 1_000


def test_a_users_hold_names_its_operation_its_owner_and_a_reason() -> None:
    made = orders.user_hold(OP, "Ann B.", "", since=5.0)
    assert (made.owner, made.reason, made.for_s) == ("user:ann-b", "manual by ann-b", orders.USER_DRAIN_S)
    assert orders.maker(made.id) == OP
    stops = orders.user_hold(OP, "ann", "fan", since=5.0, for_s=0.0, on_deadline=OnDeadline.STOP)
    assert (stops.for_s, stops.on_deadline) == (0.0, OnDeadline.STOP)


def test_holds_of_others_name_no_operation_of_ours() -> None:
    assert orders.maker(HoldId("health:gpu_lost")) is None


def test_serving_lifts_the_scalers_own_holds_and_nobody_elses() -> None:
    standing = (hold("s", holds.SCALER), hold("u"), hold("h", holds.HEALTH))
    assert orders.serve(OP, "demand", standing).lift == (HoldId("s"),)


def test_a_release_is_a_hold_of_the_scaler_without_a_deadline() -> None:
    ask = orders.release(OP, "idle", since=1.0)
    (made,) = ask.add
    assert (ask.serve, made.owner, made.kind, made.for_s) == (False, "scaler", HoldKind.DRAIN, None)


USER, REPAIR = hold("u"), hold("r", holds.REPAIR)
HEALTH, OURS = hold("h", holds.HEALTH), hold("s", holds.SCALER)


@pytest.mark.parametrize(
    ("standing", "only", "lifts"),
    [
        pytest.param((USER,), None, ("u",), id="a person's"),
        pytest.param((USER, HEALTH), None, ("u",), id="health's stays"),
        pytest.param((USER, OURS), None, ("u",), id="the scaler's stays"),
        pytest.param((USER, REPAIR), None, ("u", "r"), id="a service's goes too"),
        pytest.param((USER, REPAIR), "r", ("r",), id="only the named one"),
        pytest.param((OURS,), "s", ("s",), id="the scaler's by name"),
    ],
)
def test_an_undrain_lifts(standing: tuple[Hold, ...], only: str | None, lifts: tuple[str, ...]) -> None:
    assert orders.undrain(OP, "bob", standing, HoldId(only) if only else None).lift == lifts


@pytest.mark.parametrize(
    ("standing", "only", "why"),
    [
        pytest.param((), None, "no hold stands", id="nothing stands"),
        pytest.param((OURS,), None, "no hold stands", id="only the scaler's"),
        pytest.param((USER,), "x", "hold x does not stand", id="an unknown id"),
        pytest.param((HEALTH,), None, "h is health's .why h.: it ends when", id="only health's"),
        pytest.param((HEALTH, USER), "h", "h is health's", id="health's by name"),
    ],
)
def test_an_undrain_that_may_lift_nothing_is_refused_with_the_reason(
    standing: tuple[Hold, ...], only: str | None, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        orders.undrain(OP, "bob", standing, HoldId(only) if only else None)


@pytest.mark.parametrize(
    ("seen", "is_obeyed"),
    [((2, 9), False), ((3, 1), False), ((3, 2), True), ((3, 5), True), ((4, 1), True)],
)
def test_an_order_is_obeyed_from_its_place_on(seen: tuple[int, int], is_obeyed: bool) -> None:
    said = state(ONE, mark=Mark(term=seen[0], generation=seen[1], digest="x"))
    assert orders.has_obeyed(said, (3, 2)) is is_obeyed
    assert not orders.has_obeyed(None, (0, 0))
