"""The ledger in SQLite: what is on disk after restarts, full disks and unsound files."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.kit.scaler import ONE, TWO

from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, OperationId
from gpuherd.rest import OperationState
from gpuherd_autoscaler import sqlite_ledger
from gpuherd_autoscaler.ledger import (
    Change,
    LedgerFailed,
    Mode,
    Note,
    Operation,
    OperationKind,
    Order,
    Step,
    Target,
)
from gpuherd_autoscaler.sqlite_ledger import SqliteLedger

FILE = "ledger.sqlite3"
HOLD = Hold(id=HoldId("a"), owner="user:ann", kind=HoldKind.DRAIN, reason="fan", since=1.5, for_s=60.0)


def order(node: NodeName = ONE, generation: int = 1) -> Order:
    return Order(
        node=node,
        term=1,
        generation=generation,
        serve=True,
        holds=(HOLD,),
        lifted=(HoldId("b"),),
        op_id=OperationId("op-1"),
        payload=b"\x00\xff\n{}",
    )


def operation(op: str = "op-1", *, at: float = 0.0, is_open: bool = True, key: str = "") -> Operation:
    return Operation(
        id=OperationId(op),
        kind=OperationKind.DRAIN,
        node=ONE,
        by="user:ann",
        reason="fan",
        created_at=at,
        term=1,
        generation=1,
        state=OperationState.OPEN if is_open else OperationState.DONE,
        steps=(Step(at=2.0, text="draining"),),
        target=Target(epoch=3, boot_id="b"),
        request_key=key,
    )


def note(text: str = "x") -> Note:
    return Note(at=1.0, kind="k", reason=text, node=ONE, operation=OperationId("op-1"))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger(tmp_path)
    yield made
    made.close()


def reopened(ledger: SqliteLedger, folder: Path) -> SqliteLedger:
    ledger.close()
    return SqliteLedger(folder)


def test_everything_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteLedger(tmp_path)
    assert (first.was_empty, first.term, first.mode, first.set_aside) == (True, 0, None, None)
    events = first.commit(
        Change(term=4, mode=Mode.ENFORCE, orders=(order(),), operations=(operation(),), notes=(note(),))
    )
    again = reopened(first, tmp_path)
    assert (again.was_empty, again.term, again.mode) == (False, 4, Mode.ENFORCE)
    assert dict(again.orders) == {ONE: order()}
    assert again.operation(OperationId("op-1")) == operation()
    assert again.events(after=0) == events
    again.close()


def test_what_is_committed_later_takes_the_place_of_what_was(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path)
    ledger.commit(Change(orders=(order(), order(TWO)), operations=(operation(),)))
    ledger.commit(Change(orders=(order(generation=2),), operations=(operation(is_open=False),)))
    again = reopened(ledger, tmp_path)
    assert {n: o.generation for n, o in again.orders.items()} == {ONE: 2, TWO: 1}
    assert again.operations(only_open=True) == ()
    assert [o.id for o in again.operations()] == ["op-1"]
    again.close()


def test_an_empty_change_writes_nothing(ledger: SqliteLedger) -> None:
    assert ledger.commit(Change()) == ()
    assert ledger.was_empty


def test_a_change_is_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path)
    ledger.commit(Change(term=1, operations=(operation(key="k"),)))
    twice = Change(
        term=2,
        mode=Mode.ENFORCE,
        orders=(order(),),
        operations=(operation("op-2", key="k"),),  # a key leads to one operation
        notes=(note(),),
    )
    with pytest.raises(LedgerFailed):
        ledger.commit(twice)
    assert (ledger.term, ledger.mode, dict(ledger.orders)) == (1, None, {})
    again = reopened(ledger, tmp_path)
    assert (again.term, again.mode, dict(again.orders)) == (1, None, {})
    assert (again.operation(OperationId("op-2")), again.events(after=0)) == (None, ())
    again.close()


def test_a_full_disk_refuses_and_later_takes(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path)
    ledger.commit(Change(term=1))
    (pages,) = ledger._database.execute("pragma page_count").fetchone()
    ledger._database.execute(f"pragma max_page_count = {pages}")
    many = Change(term=2, notes=tuple(note("x" * 500) for _ in range(100)))
    with pytest.raises(LedgerFailed, match=r"full.*free or mend the disk"):
        ledger.commit(many)
    assert (ledger.term, ledger.events(after=0)) == (1, ())
    ledger._database.execute("pragma max_page_count = 100000")
    assert len(ledger.commit(many)) == 100
    assert ledger.term == 2
    ledger.close()


def garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 500)


def empty_of_sense(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4_096 * 6)


def sql(text: str, *values: object) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute(text, values)
        database.close()

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(garbage, id="no database"),
        pytest.param(empty_of_sense, id="pages are garbage"),
        pytest.param(sql("update orders set body = ?", b"{"), id="an order is no JSON"),
        pytest.param(sql("update orders set body = ?", b"{}"), id="an order lacks its fields"),
        pytest.param(sql("update facts set value = 'panic' where name = 'mode'"), id="an unknown mode"),
        pytest.param(sql("update facts set value = 'x' where name = 'term'"), id="a term that is no number"),
        pytest.param(sql("update operations set body = ?", b"[]"), id="an open operation is garbage"),
    ],
)
def test_an_unsound_ledger_is_set_aside_and_only_recommends(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    first = SqliteLedger(tmp_path)
    first.commit(Change(term=4, mode=Mode.ENFORCE, orders=(order(),), operations=(operation(),)))
    first.close()
    spoil(tmp_path / FILE)
    spoilt = (tmp_path / FILE).read_bytes()
    again = SqliteLedger(tmp_path)
    assert again.set_aside is not None
    assert again.set_aside.read_bytes() == spoilt, "it is kept for a person to look at"
    assert (again.was_empty, again.term, again.mode, dict(again.orders)) == (True, 0, Mode.RECOMMEND, {})
    again = reopened(again, tmp_path)
    assert (again.set_aside, again.mode) == (None, Mode.RECOMMEND), "a second start does not forget it"
    again.close()


def test_a_second_unsound_ledger_does_not_cover_the_first(tmp_path: Path) -> None:
    for text in (b"one" * 999, b"two" * 999):
        (tmp_path / FILE).write_bytes(text)
        SqliteLedger(tmp_path).close()
    assert len(list(tmp_path.glob(f"{FILE}.unsound-*"))) == 2


def test_a_ledger_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    first = SqliteLedger(tmp_path)
    first.commit(Change(term=4))
    first._database.execute("pragma user_version = 99")
    first.close()
    with pytest.raises(LedgerFailed, match=r"schema 99.*upgrade"):
        SqliteLedger(tmp_path)
    assert not list(tmp_path.glob("*.unsound-*"))


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerFailed, match="file/state"):
        SqliteLedger(tmp_path / "file" / "state")


def test_a_path_that_is_no_file_is_named_and_lets_the_lock_go(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    for _ in range(2):
        with pytest.raises(LedgerFailed, match="mend the disk"):
            SqliteLedger(tmp_path)


def test_one_scaler_at_a_time(tmp_path: Path) -> None:
    first = SqliteLedger(tmp_path)
    with pytest.raises(LedgerFailed, match="another scaler"):
        SqliteLedger(tmp_path)
    reopened(first, tmp_path).close()


def test_operations_are_told_newest_first(ledger: SqliteLedger) -> None:
    ledger.commit(Change(operations=(operation("b", at=2.0), operation("a", at=1.0), operation("c", at=2.0))))
    assert [o.id for o in ledger.operations()] == ["c", "b", "a"]
    assert [o.id for o in ledger.operations(limit=1)] == ["c"]


def test_every_open_operation_is_told_however_many(ledger: SqliteLedger) -> None:
    ledger.commit(Change(operations=tuple(operation(f"o{i}", at=float(i)) for i in range(1_500))))
    assert len(ledger.operations(only_open=True)) == 1_500
    assert len(ledger.operations()) == 1_000


def test_a_key_finds_its_operation_and_no_key_finds_none(ledger: SqliteLedger) -> None:
    ledger.commit(Change(operations=(operation("a", key="k"), operation("b"), operation("c"))))
    assert ledger.requested("k") == operation("a", key="k")
    assert ledger.requested("") is None


def test_old_events_are_forgotten_and_numbers_are_never_used_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_ledger, "KEPT_EVENTS", 3)
    ledger = SqliteLedger(tmp_path)
    for _ in range(5):
        ledger.commit(Change(notes=(note(),)))
    assert [e.id for e in ledger.events(after=0)] == [3, 4, 5]
    ledger._database.execute("delete from events")
    again = reopened(ledger, tmp_path)
    assert [e.id for e in again.commit(Change(notes=(note(), note())))] == [6, 7]
    again.close()


def test_closed_operations_are_forgotten_and_open_ones_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_ledger, "KEPT_CLOSED", 2)
    ledger = SqliteLedger(tmp_path)
    ledger.commit(Change(operations=tuple(operation(f"o{i}", at=float(i)) for i in range(4))))
    for number in range(4, 8):
        ledger.commit(Change(operations=(operation(f"c{number}", at=float(number), is_open=False),)))
    assert [o.id for o in ledger.operations()] == ["c7", "c6", "o3", "o2", "o1", "o0"]
    ledger.close()


def test_a_disk_that_cannot_be_read_is_a_failed_ledger_too(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path)
    ledger.commit(Change(operations=(operation(),)))
    ledger._database.execute("drop table operations")
    for read in (
        lambda: ledger.operations(only_open=True),
        lambda: ledger.operation(OperationId("op-1")),
        lambda: ledger.requested("k"),
    ):
        with pytest.raises(LedgerFailed, match="cannot read"):
            read()
    ledger.close()


def test_bodies_are_readable_json_for_a_person_with_sqlite3(ledger: SqliteLedger) -> None:
    ledger.commit(Change(orders=(order(),)))
    (body,) = ledger._database.execute("select body from orders").fetchone()
    assert msgspec.json.decode(body)["holds"][0]["reason"] == "fan"
