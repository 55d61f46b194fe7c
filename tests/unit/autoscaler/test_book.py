"""The scaler's durable part: committed before published, and no hold lifted that is not its own."""

import sqlite3
from pathlib import Path

import pytest
from tests.kit.scaler import HERD, ONE, TWO, book, document, state, take_term

from gpuherd import holds
from gpuherd.errors import Conflict, NotFound, Refused, Retryable
from gpuherd.fence import Mark
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, OperationId
from gpuherd.phases import Phase
from gpuherd.rest import OperationState
from gpuherd_autoscaler import operations, orders, term
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import Change, LedgerFailed, Mode, Order
from gpuherd_autoscaler.orders import Ask
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_autoscaler.sqlite_ledger import SqliteLedger

FAN = DrainWish(node=ONE, by="ann", reason="fan")


def health_hold(name: str = "health-1") -> Hold:
    return Hold(id=HoldId(name), owner=holds.HEALTH, kind=HoldKind.EVICT, reason="gpu lost", since=0.0)


def test_a_drain_is_a_hold_with_its_owner_reason_and_hour(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        operation = People(made).drain(FAN)
        (hold,) = document(made).holds
        assert (hold.owner, hold.kind, hold.reason, hold.for_s) == (
            "user:ann",
            HoldKind.DRAIN,
            "fan",
            3_600.0,
        )
        assert operation.state is OperationState.OPEN
        assert document(made).op_id == operation.id


def test_a_drain_survives_a_crash_with_the_same_operation_and_generation(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        operation = People(made).drain(FAN)
        before = document(made)
    with book(tmp_path) as again:
        assert document(again) == before
        assert [o.id for o in again.ledger.operations(only_open=True)] == [operation.id]
        assert People(again).drain(FAN).id == operation.id
        assert document(again) == before


def test_a_commit_that_fails_publishes_and_changes_nothing(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        told: list[NodeName] = []
        made.on_order(told.append)
        ledger = made.ledger
        assert isinstance(ledger, SqliteLedger)
        ledger._database.execute("pragma query_only=on")
        with pytest.raises(LedgerFailed, match="disk"):
            People(made).drain(FAN)
        assert (told, made.order(ONE), made.ledger.operations()) == ([], None, ())
        ledger._database.execute("pragma query_only=off")
        People(made).drain(FAN)
        assert told == [ONE]


def test_what_is_told_was_committed_before(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        seen: list[tuple[int, int]] = []

        def look(node: NodeName) -> None:
            with sqlite3.connect(tmp_path / "ledger.sqlite3") as other:
                seen.append(
                    other.execute("select count(*) from orders where node = ?", (node,)).fetchone()[0]
                )

        made.on_order(look)
        People(made).drain(FAN)
        assert seen == [1]


def test_undrain_of_old_hold_keeps_new_one(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(FAN)
        (old,) = document(made).holds
        people.drain(DrainWish(node=ONE, by="bob", reason="disk"))
        people.undrain(ONE, "ann", only=old.id)
        assert [h.reason for h in document(made).holds] == ["disk"]
        assert document(made).lifted == (old.id,)


def test_direct_hold_survives_empty_desired(tmp_path: Path) -> None:
    direct = Hold(id=HoldId("direct-1"), owner="user:cas", kind=HoldKind.DRAIN, reason="x", since=0.0)
    with book(tmp_path) as made:
        made.inventory.receive_state(state(ONE, direct), at=0.0, retained=False)
        made.commit(
            Change(orders=_orders(made, orders.serve(OperationId("s"), "demand", made.standing(ONE))))
        )
        assert direct.id not in document(made).lifted
        assert document(made).holds == ()
        assert [h.id for h in made.standing(ONE)] == ["direct-1"]


def _orders(made: Book, ask: Ask) -> tuple[Order, ...]:
    order = made.next_order(ONE, ask)
    return () if order is None else (order,)


def test_a_lifted_id_stays_until_the_node_no_longer_lists_the_hold(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        people.drain(FAN)
        (hold,) = document(made).holds
        made.inventory.receive_state(state(ONE, hold, obeys=document(made)), at=0.0, retained=False)
        people.undrain(ONE, "ann")
        people.drain(DrainWish(node=ONE, by="bob", reason="disk"))
        assert hold.id in document(made).lifted
        said = state(ONE, *document(made).holds, obeys=document(made), seq=2)
        made.inventory.receive_state(said, at=1.0, retained=False)
        people.undrain(ONE, "bob")
        assert hold.id not in document(made).lifted


def test_a_hold_of_health_is_not_lifted_by_a_person(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        made.inventory.receive_state(state(ONE, health_hold()), at=0.0, retained=False)
        with pytest.raises(Refused, match="gpu lost"):
            People(made).undrain(ONE, "ann")
        assert made.order(ONE) is None


def test_an_undrain_leaves_the_scalers_own_wish(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        made.commit(Change(orders=_orders(made, orders.release(OperationId("r"), "idle", since=0.0))))
        with pytest.raises(Refused):
            People(made).undrain(ONE, "ann")
        assert [h.owner for h in document(made).holds] == ["scaler"]


def test_a_request_key_finds_its_operation_and_no_other(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        people = People(made)
        first = people.drain(DrainWish(node=ONE, by="ann", request_key="k"))
        assert people.drain(DrainWish(node=ONE, by="ann", request_key="k")).id == first.id
        with pytest.raises(Conflict):
            people.drain(DrainWish(node=TWO, by="ann", request_key="k"))


def test_a_node_of_no_pool_is_not_found(tmp_path: Path) -> None:
    with book(tmp_path) as made, pytest.raises(NotFound, match="agentctl nodes"):
        People(made).drain(DrainWish(node=NodeName("stranger"), by="ann"))


def test_before_a_term_is_taken_nothing_is_ordered(tmp_path: Path) -> None:
    with book(tmp_path, term=0) as made, pytest.raises(Retryable, match="term"):
        People(made).drain(FAN)


def test_a_second_scaler_on_the_same_ledger_is_refused(tmp_path: Path) -> None:
    with book(tmp_path), pytest.raises(LedgerFailed, match="another"):
        SqliteLedger(tmp_path)


def test_an_unsound_ledger_is_set_aside_and_only_recommends(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        made.commit(Change(mode=Mode.ENFORCE))
    for file in tmp_path.glob("ledger.sqlite3*"):
        file.write_bytes(b"no database" * 500)
    with book(tmp_path) as again:
        ledger = again.ledger
        assert isinstance(ledger, SqliteLedger)
        assert ledger.set_aside is not None
        assert ledger.set_aside.exists()
        assert again.mode is Mode.RECOMMEND


def test_event_numbers_go_on_over_a_restart(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        People(made).drain(FAN)
        last = made.ledger.events(after=0)[-1].id
    with book(tmp_path) as again:
        People(again).undrain(ONE, "ann")
        assert again.ledger.events(after=last)[0].id == last + 1


def test_a_drain_ends_when_the_node_says_so_under_the_order(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        operation = People(made).drain(FAN)
        early = state(ONE, phase=Phase.OUTSIDE)
        assert operations.advance(operation, early, None, (), wall=1.0).is_open
        draining = state(ONE, phase=Phase.DRAINING, obeys=document(made))
        assert operations.advance(operation, draining, None, (), wall=operation.created_at).is_open
        out = state(ONE, phase=Phase.OUTSIDE, obeys=document(made))
        done = operations.advance(operation, out, None, (), wall=operation.created_at)
        assert done.state is OperationState.DONE


def test_an_operation_without_an_end_is_given_up_with_its_last_step(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        operation = People(made).drain(FAN)
        late = operation.created_at + operation.timeout_s + 1.0
        ended = operations.advance(operation, None, None, (), wall=late)
        assert ended.state is OperationState.ABANDONED
        assert "not been heard of" in ended.result


def test_a_release_that_ray_denies_ends_with_the_order_to_serve(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        made.inventory.receive_state(state(ONE), at=0.0, retained=False)
        made.commit(Change(orders=_orders(made, orders.serve(OperationId("s"), "demand", ()))))
        ask = orders.release(OperationId("r"), "idle", since=0.0)
        made.commit(Change(orders=_orders(made, ask)))
        assert not document(made).serve
        back = orders.serve(OperationId("b"), "Ray keeps it", made.standing(ONE))
        made.commit(Change(orders=_orders(made, back)))
        assert document(made).serve
        assert document(made).holds == ()


def test_a_start_takes_a_term_above_what_nodes_obey(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        People(made).drain(FAN)
        states = {ONE: state(ONE, mark=Mark(term=7, generation=3, digest="x"))}
        assert take_term(made, states, is_start=True)
        assert made.ledger.term == 8
        assert document(made).term == 8
        assert made.mode is Mode.RECOMMEND


def test_a_term_out_of_reach_is_not_followed() -> None:
    states = {
        ONE: state(ONE, mark=Mark(term=5, generation=1, digest="x")),
        TWO: state(TWO, mark=Mark(term=2**40, generation=1, digest="x")),
    }
    assert term.reported(4, states).highest + 1 == 6
    assert term.reported(4, states).outliers == (TWO,)


def test_the_herd_knows_its_nodes_and_sizes() -> None:
    assert HERD.names == ("n-1", "n-2", "n-3")
    assert HERD.frame(ONE, 1).pool_size == 3
