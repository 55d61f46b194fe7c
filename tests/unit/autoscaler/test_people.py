"""What people ask for: recorded with who and why, found again when repeated, or refused with a reason."""

from pathlib import Path

import pytest
from tests.kit.scaler import HERD, ONE, TWO, book, document, state

from gpuherd import holds
from gpuherd.errors import Conflict, HerdError, NotFound, Refused, Retryable
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import HoldId, NodeName, OperationId, PoolName
from gpuherd.rest import OperationState
from gpuherd_autoscaler import acts, orders
from gpuherd_autoscaler.book import Book, Herd
from gpuherd_autoscaler.ledger import Change, Mode, OperationKind, Order
from gpuherd_autoscaler.people import MAX_FOR_S, DrainWish, People
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.steering import Steering

STRANGER = NodeName("stranger")
HEALTH = Hold(id=HoldId("h"), owner=holds.HEALTH, kind=HoldKind.EVICT, reason="gpu lost", since=0.0)


def fan(**changed: object) -> DrainWish:
    return DrainWish(**{"node": ONE, "by": "ann", "reason": "fan", **changed})  # type: ignore[arg-type]


LEAVE = fan(kind=OperationKind.LEAVE)


def released(made: Book) -> Order:
    """Return the order by which the scaler lets the node rest."""
    order = made.next_order(ONE, orders.release(OperationId("op-r"), "not needed", since=0.0))
    assert order is not None
    return order


@pytest.mark.parametrize(
    ("repeat", "is_same"),
    [
        pytest.param(fan(), True, id="the same"),
        pytest.param(fan(reason="louder fan"), True, id="another reason for the same hold"),
        pytest.param(fan(by="bob"), False, id="another person"),
        pytest.param(fan(for_s=60.0), False, id="another deadline"),
        pytest.param(fan(on_deadline=OnDeadline.STOP), False, id="another end"),
        pytest.param(fan(node=TWO), False, id="another node"),
    ],
)
def test_a_repeated_drain_finds_the_first_and_another_one_stands_beside_it(
    tmp_path: Path, repeat: DrainWish, is_same: bool
) -> None:
    with book(tmp_path) as made:
        people = People(made)
        first = people.drain(fan())
        assert (people.drain(repeat).id == first.id) is is_same
        assert len(made.ledger.operations()) == (1 if is_same else 2)


@pytest.mark.parametrize(
    ("wish", "kind", "text"),
    [
        pytest.param(fan(node=STRANGER), NotFound, "in no pool", id="a stranger"),
        pytest.param(fan(for_s=-1.0), Refused, "for_s", id="a negative time"),
        pytest.param(fan(for_s=MAX_FOR_S + 1), Refused, "for_s", id="more than a month"),
        pytest.param(fan(for_s=float("nan")), Refused, "for_s", id="no number"),
    ],
)
def test_a_drain_that_cannot_be_is_refused_and_leaves_no_trace(
    tmp_path: Path, wish: DrainWish, kind: type[HerdError], text: str
) -> None:
    with book(tmp_path) as made:
        with pytest.raises(kind, match=text):
            People(made).drain(wish)
        assert (dict(made.ledger.orders), made.ledger.operations()) == ({}, ())


def test_names_and_reasons_of_any_length_and_script_are_taken(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        People(made).drain(fan(by="Änn O'Neil\n" * 50, reason="größer \x1b[31m" * 500))
        (hold,) = document(made).holds
        assert holds.parse_owner(hold.owner) == hold.owner
        assert len(hold.reason) == 500


def test_a_key_is_remembered_over_a_restart_and_after_the_end(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        first = People(made).drain(fan(request_key="k"))
        hold = document(made).holds[0].id
        People(made).undrain(ONE, "ann", only=hold)
    with book(tmp_path) as again:
        found = People(again).drain(fan(request_key="k"))
        assert (found.id, found.state) == (first.id, OperationState.FAILED)
        assert document(again).holds == ()


def test_a_key_of_a_drain_is_none_for_an_undrain(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(fan(request_key="k"))
        with pytest.raises(Conflict, match="belongs to the drain of n-1"):
            people.undrain(ONE, "ann", request_key="k")
        assert len(document(made).holds) == 1


def test_a_repeated_undrain_finds_the_first_while_that_runs(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(fan())
        hold = document(made).holds[0].id
        first = people.undrain(ONE, "ann")
        assert people.undrain(ONE, "ann").id == first.id
        assert people.undrain(ONE, "bob", only=hold).id == first.id
        with pytest.raises(Refused, match="does not stand"):
            people.undrain(ONE, "ann", only=HoldId("other"))


def test_an_undrain_ends_the_drain_whose_hold_it_lifts_and_says_who(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        drain = people.drain(fan())
        people.drain(fan(by="bob"))
        people.undrain(ONE, "cas", only=document(made).holds[0].id)
        ended = people.operation(drain.id)
        assert (ended.state, ended.result) == (OperationState.FAILED, "undrained by user:cas")
        assert [(o.kind, o.by) for o in people.operations(only_open=True)] == [
            (OperationKind.UNDRAIN, "user:cas"),
            (OperationKind.DRAIN, "user:bob"),
        ]


def test_an_undrain_lifts_what_it_may_and_leaves_healths_hold(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(fan())
        made.inventory.receive_state(state(ONE, HEALTH), at=0.0)
        people.undrain(ONE, "ann")
        assert [h.id for h in made.standing(ONE)] == ["h"]
        with pytest.raises(Refused, match=r"gpu lost.*ends when the finding clears"):
            people.undrain(ONE, "ann", only=HEALTH.id)


def test_an_undrain_of_an_unknown_node_is_not_found(tmp_path: Path) -> None:
    with book(tmp_path) as made, pytest.raises(NotFound):
        People(made).undrain(STRANGER, "ann")


def test_before_a_term_is_taken_an_undrain_may_be_tried_again(tmp_path: Path) -> None:
    with book(tmp_path, term=0) as made:
        made.inventory.receive_state(
            state(ONE, Hold(id=HoldId("d"), owner="user:x", kind=HoldKind.DRAIN, reason="", since=0.0)),
            at=0.0,
        )
        with pytest.raises(Retryable, match="knows no term yet"):
            People(made).undrain(ONE, "ann")


def test_a_leave_gives_work_all_its_time_and_a_drain_an_hour(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        leave = people.drain(LEAVE)
        people.drain(fan(node=TWO))
        assert [h.for_s for n in (ONE, TWO) for h in document(made, n).holds] == [None, 3_600.0]
        assert (leave.kind, people.drain(LEAVE).id) == (OperationKind.LEAVE, leave.id)


def test_a_join_lifts_all_that_stands_and_asks_the_node_to_serve(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        left = people.drain(fan(kind=OperationKind.LEAVE))
        made.commit(Change(orders=(released(made),)))
        assert {h.owner for h in made.standing(ONE)} == {"user:ann", holds.SCALER}
        join = people.join(ONE, "bob", reason="fan is new")
        assert (join.kind, join.reason, join.by) == (OperationKind.JOIN, "fan is new", "user:bob")
        assert (document(made).serve, document(made).holds, made.standing(ONE)) == (True, (), ())
        assert people.operation(left.id).state is OperationState.FAILED
        assert people.join(ONE, "bob").id == join.id


def test_a_join_of_a_node_that_serves_already_is_followed_all_the_same(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        first = people.join(ONE, "ann")
        made.inventory.receive_state(state(ONE, obeys=document(made)), at=0.0)
        acts.observe(made, {})
        assert people.operation(first.id).result == "the node serves"
        again = people.join(ONE, "ann")
        acts.observe(made, {})
        assert again.id != first.id
        assert people.operation(again.id).state is OperationState.DONE
        assert document(made).generation == 1


def test_a_join_that_a_hold_of_health_would_keep_out_is_refused_and_lifts_nothing(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(fan())
        made.inventory.receive_state(state(ONE, HEALTH), at=0.0)
        with pytest.raises(Refused, match="gpu lost"):
            people.join(ONE, "ann")
        assert len(document(made).holds) == 1


def test_a_join_beyond_the_pools_max_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pool = Pool(name=PoolName("p"), nodes=("n-[1-3]",), min=0, max=1)
    with book(tmp_path) as made:
        made.herd = Herd(cluster=HERD.cluster, pools=(pool,), head=HERD.head)
        people = People(made)
        people.join(TWO, "ann")
        with pytest.raises(Refused, match=r"1 other nodes asked to serve and a max of 1.*drain another"):
            people.join(ONE, "ann")
        people.drain(fan(node=TWO))
        people.join(ONE, "ann")
        assert document(made).serve


@pytest.mark.parametrize("mode", Mode)
def test_a_join_says_from_the_start_that_an_armed_autoscaler_may_end_it(tmp_path: Path, mode: Mode) -> None:
    with book(tmp_path) as made:
        people = People(made)
        Steering(made).set_mode(mode.value, "ann")
        told = [step.text for step in people.join(ONE, "ann").steps]
        assert bool(told) is (mode is Mode.ENFORCE)
        assert all("idle for 600 s" in text for text in told)


def test_an_unknown_operation_is_not_found(tmp_path: Path) -> None:
    with book(tmp_path) as made, pytest.raises(NotFound, match="op-x"):
        People(made).operation(OperationId("op-x"))
