"""The scaler is killed at each step of its commits and publications, and started again from its file.

Each life runs in a process of its own that ends itself without any clean-up, as SIGKILL would.
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec
import pytest
from tests.kit.scaler import CLUSTER, HERD, ONE, TWO, KeptBus, book, document, state, take_term

from gpuherd.errors import Refused
from gpuherd.phases import Phase
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Desired
from gpuherd_autoscaler import acts
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import LedgerFailed
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.sqlite_ledger import SqliteLedger
from gpuherd_autoscaler.steering import Steering

KILLED, LIED, BROKE, ENDED = 9, 70, 71, 0
FAN = DrainWish(node=ONE, by="ann", reason="fan", request_key="fan")
DISK = DrainWish(node=ONE, by="bob", reason="disk", request_key="disk")
LAST: Final = 500
"""Far above the number of steps."""


class Life:
    """Counts steps and ends the process at the chosen one."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at = dies_at
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            os._exit(KILLED)


class MortalDatabase:
    """The ledger's connection: each statement, and the end of each transaction, is a step."""

    def __init__(self, real: sqlite3.Connection, life: Life) -> None:
        self._real = real
        self._life = life

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._life.step()
        return self._real.execute(statement, values)

    def __enter__(self) -> object:
        return self._real.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._life.step()
        self._real.__exit__(kind, error, at)
        self._life.step()

    def close(self) -> None:
        self._real.close()


class MortalBus(KeptBus):
    """A broker that outlives the scaler, and that catches a scaler which publishes what is not on disk."""

    def __init__(self, folder: Path, life: Life) -> None:
        super().__init__()
        self._folder = folder
        self._life = life

    def keep(self, topic: str, payload: bytes) -> None:
        self._life.step()
        if topic.endswith("/desired"):
            if payload not in committed(self._folder):
                os._exit(LIED)
            with (self._folder / "broker").open("ab") as broker:
                broker.write(payload + b"\n")
        self._life.step()


def committed(folder: Path) -> list[bytes]:
    """Return the payloads on disk, as another process sees them."""
    with sqlite3.connect(folder / "ledger.sqlite3") as other:
        bodies = other.execute("select body from orders").fetchall()
    other.close()
    return [bytes(msgspec.json.decode(body, type=Payload).payload) for (body,) in bodies]


class Payload(msgspec.Struct):
    payload: bytes


def published(folder: Path) -> list[Desired]:
    path = folder / "broker"
    return [decode(line, Desired) for line in path.read_bytes().splitlines()] if path.exists() else []


def story(made: Book, bus: KeptBus) -> None:
    """Start; ann and bob drain node 1; demand asks node 2; ann's hold is lifted; node 1 obeys."""
    publisher = Publisher(bus, made.ledger, CLUSTER)
    made.on_order(lambda node: publisher.offer(node, now=0.0))
    take_term(made, {}, is_start=True)
    publisher.offer_all(HERD.names, now=0.0)
    people = People(made)
    people.drain(FAN)
    people.drain(DISK)
    acts.carry_out(made, Plan(serve=(TWO,), reasons={TWO: "demand"}))
    hold = next((h.id for h in document(made).holds if h.reason == "fan"), None)
    if hold is not None:
        people.undrain(ONE, "ann", only=hold, request_key="un")
    said = state(ONE, *document(made).holds, phase=Phase.OUTSIDE, obeys=document(made))
    made.inventory.receive_state(said, at=0.0)
    acts.observe(made, {})


def live(folder: Path, dies_at: int, play: Callable[[Book, KeptBus], None] = story) -> tuple[int, int]:
    """Run one life in a child; return its exit code and how many steps it took."""
    (folder / "steps").unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        code = BROKE
        try:
            life = Life(dies_at)
            with book(folder, term=0) as made:
                ledger = made.ledger
                assert isinstance(ledger, SqliteLedger)
                ledger._database = MortalDatabase(ledger._database, life)  # type: ignore[assignment]
                play(made, MortalBus(folder, life))
            (folder / "steps").write_text(str(life.steps))
            code = ENDED
        except BaseException as error:  # noqa: BLE001  the child must never return into the test runner
            sys.stderr.write(f"{error!r}\n")
            sys.stderr.flush()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = folder / "steps"
    return code, int(steps.read_text()) if steps.exists() else 0


def check_the_disk(folder: Path) -> None:
    """Nothing was published that the ledger does not know, and no hold is lost that was published."""
    with book(folder, term=0) as made:
        for told in published(folder):
            order = made.order(told.node)
            assert order is not None
            assert (told.term, told.generation) <= order.mark
            known = {h.id for h in order.holds} | set(order.lifted)
            assert {h.id for h in told.holds} <= known, "a hold is gone without having been lifted"


def check_the_end(folder: Path) -> None:
    """However often it died, the end is that of a scaler which never did."""
    with book(folder, term=0) as made:
        one = document(made, ONE)
        assert [h.reason for h in one.holds] == ["disk"]
        assert document(made, TWO).serve
        keys = [made.ledger.requested(key) for key in ("fan", "disk", "un")]
        assert all(keys)
        found = sorted((o.kind, o.node, o.state, o.request_key) for o in made.ledger.operations())
        assert found == [
            ("drain", ONE, "done", "disk"),
            ("drain", ONE, "failed", "fan"),
            ("serve", TWO, "open", ""),
            ("undrain", ONE, "done", "un"),
        ]
        assert one == [told for told in published(folder) if told.node == ONE][-1]


def steps_of_a_life(folder: Path) -> int:
    code, steps = live(folder, LAST)
    assert code == ENDED
    return steps


def test_a_scaler_that_never_dies_comes_to_its_end(tmp_path: Path) -> None:
    assert 30 < steps_of_a_life(tmp_path) < LAST
    check_the_disk(tmp_path)
    check_the_end(tmp_path)


def test_a_kill_at_any_step_publishes_nothing_uncommitted_and_loses_no_hold(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    steps = steps_of_a_life(tmp_path / "whole")
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        folder.mkdir()
        assert live(folder, step)[0] == KILLED, step
        check_the_disk(folder)
        assert live(folder, LAST)[0] == ENDED, step
        check_the_disk(folder)
        check_the_end(folder)


def test_a_scaler_that_is_killed_again_and_again_still_gets_there(tmp_path: Path) -> None:
    for step in range(5, 200, 3):
        code, _ = live(tmp_path, step)
        check_the_disk(tmp_path)
        if code == ENDED:
            break
        assert code == KILLED
    else:
        pytest.fail("it never got there")
    check_the_end(tmp_path)


def test_a_disk_that_refuses_at_any_step_changes_and_publishes_nothing(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        ledger = made.ledger
        assert isinstance(ledger, SqliteLedger)
        people = People(made)
        people.drain(FAN)
        bus = KeptBus()
        publisher = Publisher(bus, ledger, CLUSTER)
        made.on_order(lambda node: publisher.offer(node, now=0.0))
        before = (dict(ledger.orders), ledger.operations(), ledger.term, ledger.events(after=0))
        ledger._database.execute("pragma query_only=on")
        for act in (
            lambda: people.drain(DISK),
            lambda: people.undrain(ONE, "ann"),
            lambda: Steering(made).set_mode("enforce", "ann"),
            lambda: Steering(made).pause("ann"),
            lambda: Steering(made).scale("p", 2, "ann"),
            lambda: take_term(made, {}, is_start=True),
            lambda: acts.carry_out(made, Plan(serve=(TWO,))),
            lambda: acts.observe(made, {}),
        ):
            with pytest.raises(LedgerFailed) as refused:
                act()
            assert isinstance(refused.value, Refused)
            now = (dict(ledger.orders), ledger.operations(), ledger.term, ledger.events(after=0))
            assert now == before
        assert bus.kept == []
