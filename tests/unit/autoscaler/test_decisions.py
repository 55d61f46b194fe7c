"""Decisions as they are kept: equal ones count up, others are new, a bad disk costs only the record."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuherd.names import NodeName, PoolName
from gpuherd.ray import Shape
from gpuherd_autoscaler import decisions, sqlite_decisions
from gpuherd_autoscaler.chronicle import Chronicle
from gpuherd_autoscaler.decisions import Decision
from gpuherd_autoscaler.ledger import LedgerFailed, Mode
from gpuherd_autoscaler.plan import Plan, Refusal
from gpuherd_autoscaler.snapshot import Snapshot
from gpuherd_autoscaler.sqlite_decisions import SqliteDecisions

ONE = NodeName("n-1")
SILENT = Plan(kept={ONE: "idle for 5 of 600 s"})
SERVE = Plan(serve=(ONE,), reasons={ONE: "demand"})


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SqliteDecisions]:
    made = SqliteDecisions(tmp_path)
    yield made
    made.close()


def take(chronicle: Chronicle, plan: Plan, wall: float, *, term: int = 1, mode: Mode = Mode.ENFORCE) -> None:
    chronicle.take(Snapshot(at=wall), plan, mode=mode, term=term, wall=wall)


@pytest.mark.parametrize(
    ("other", "is_new"),
    [
        pytest.param(replace(SILENT, kept={ONE: "idle for 10 of 600 s"}), False, id="a reason ticks"),
        pytest.param(replace(SILENT, frozen="frozen: x; sound for 3 of 60 s"), True, id="freezes"),
        pytest.param(SERVE, True, id="asks a node"),
        pytest.param(replace(SILENT, release=(ONE,)), True, id="releases a node"),
        pytest.param(replace(SILENT, demand=(Shape(resources=(("GPU", 1.0),)),)), True, id="demand"),
        pytest.param(replace(SILENT, infeasible=(Shape(resources=(("GPU", 99.0),)),)), True, id="infeasible"),
        pytest.param(
            replace(SILENT, refusals=(Refusal(rule="max", figure=3.0, text="x", pool=PoolName("p")),)),
            True,
            id="refusal",
        ),
    ],
)
def test_a_decision_is_another_one_when_it_asks_refuses_or_counts_otherwise(
    kept: SqliteDecisions, other: Plan, *, is_new: bool
) -> None:
    chronicle = Chronicle(kept)
    take(chronicle, SILENT, 100.0)
    take(chronicle, other, 105.0)
    assert len(kept.decisions()) == 1 + is_new


def test_another_term_or_mode_makes_another_decision(kept: SqliteDecisions) -> None:
    chronicle = Chronicle(kept)
    take(chronicle, SILENT, 100.0)
    take(chronicle, SILENT, 105.0, term=2)
    take(chronicle, SILENT, 110.0, term=2, mode=Mode.RECOMMEND)
    assert [d.term for d in kept.decisions()] == [2, 2, 1]


def test_frozen_seconds_that_tick_make_no_new_decision(kept: SqliteDecisions) -> None:
    chronicle = Chronicle(kept)
    take(chronicle, replace(SILENT, frozen="settling: Ray's head has a new session, 5 of 180 s"), 100.0)
    take(chronicle, replace(SILENT, frozen="settling: Ray's head has a new session, 10 of 180 s"), 105.0)
    assert len(kept.decisions()) == 1


def test_a_repeated_decision_is_written_once_a_minute_with_its_count(kept: SqliteDecisions) -> None:
    chronicle = Chronicle(kept)
    for step in range(14):
        take(chronicle, SILENT, 100.0 + 5.0 * step)
    (written,) = kept.decisions()
    assert (written.times, written.at, written.last_at) == (13, 100.0, 160.0)
    assert chronicle.newest is not None
    assert chronicle.newest.times == 14


def test_what_was_kept_is_read_back_with_its_reasons_and_inputs(kept: SqliteDecisions) -> None:
    chronicle = Chronicle(kept)
    take(chronicle, SERVE, 100.0)
    (written,) = kept.decisions()
    assert decisions.plan_of(written) == SERVE
    assert decisions.inputs_of(written) == Snapshot(at=100.0)
    assert kept.decision(written.id) == written
    assert kept.decision(99) is None


def test_the_decision_of_a_time_is_the_newest_before_it(kept: SqliteDecisions) -> None:
    chronicle = Chronicle(kept)
    take(chronicle, SILENT, 100.0)
    take(chronicle, SERVE, 200.0)
    words = {at: found and found.words for at in (99.0, 150.0, 500.0) for found in [kept.decision_at(at)]}
    assert words == {99.0: None, 150.0: "no change", 500.0: "serve n-1"}


def test_old_decisions_are_forgotten(kept: SqliteDecisions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_decisions, "KEPT", 3)
    chronicle = Chronicle(kept)
    for number in range(6):
        take(chronicle, SILENT, float(number), term=number + 1)
    assert [d.term for d in kept.decisions()] == [6, 5, 4]


def test_a_damaged_record_is_told_and_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    made = SqliteDecisions(tmp_path)
    damaged = Decision(
        at=1.0, last_at=1.0, times=1, term=1, mode=Mode.ENFORCE, words="x", plan=b"junk", inputs=b""
    )
    made.keep(damaged)
    (found,) = made.decisions()
    with pytest.raises(ValueError, match="damaged"):
        decisions.plan_of(found)
    made.close()
    (tmp_path / "decisions.sqlite3").write_bytes(b"no database at all" * 400)
    anew = SqliteDecisions(tmp_path)
    assert anew.decisions() == ()
    anew.close()


class FullDisk:
    """A place for decisions that takes none."""

    def keep(self, decision: Decision) -> int:
        raise LedgerFailed(f"disk full at {decision.at}")

    def decisions(self, *, limit: int = 100) -> tuple[Decision, ...]:
        return ()[:limit]

    def decision(self, number: int) -> Decision | None:
        del number

    def decision_at(self, wall: float) -> Decision | None:
        del wall


def test_a_disk_that_refuses_costs_the_record_and_nothing_else() -> None:
    chronicle = Chronicle(FullDisk())
    take(chronicle, SERVE, 100.0)
    take(chronicle, SERVE, 105.0)
    assert chronicle.newest is not None
    assert chronicle.newest.times == 2
