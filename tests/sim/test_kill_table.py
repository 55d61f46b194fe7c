"""The kill table: each process killed in each phase of the main thread, as rows of kill_table.toml.

A row passes when its kill was done, the thread came to its end all the same, every invariant was
evaluated, those that the row names had something to look at, and none was broken.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuherd_sim.invariants import INVARIANTS, Judgement, breaches, judge
from gpuherd_sim.thread_story import Cell, Moment, ThreadStory, Victim
from gpuherd_sim.virtual_time import VirtualLoop, run

NAMES = {check.__name__ for check in INVARIANTS}
TABLE = tomllib.loads(Path(__file__).with_name("kill_table.toml").read_text())


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell and the invariants that must have had something to look at in it."""

    cell: Cell
    bites: frozenset[str]


def _row(table: dict[str, object]) -> Row:
    cell = Cell(victim=Victim(str(table["victim"])), moment=Moment(str(table["moment"])))
    idle = {str(name) for name in TABLE["idle"].get(cell.moment, {}).get(cell.victim, [])}
    return Row(cell=cell, bites=frozenset(NAMES - idle))


ROWS = [_row(table) for table in TABLE["row"]]


def play(cell: Cell | None) -> tuple[float | None, dict[str, Judgement], tuple[object, ...]]:
    """Return when the kill was done, what the invariants say, and all that happened."""

    async def main(loop: VirtualLoop) -> tuple[float | None, dict[str, Judgement], tuple[object, ...]]:
        story = ThreadStory(loop, cell)
        record = await story.play()
        happened = tuple((e.at, e.kind, e.node) for e in record.entries)
        return story.killed_at, dict(judge(record)), happened

    return run(main, until_s=5_000)


def test_the_table_has_every_cell_once() -> None:
    cells = [row.cell for row in ROWS]
    assert len(cells) == len(Victim) * len(Moment) == 80
    assert len(set(cells)) == 80


def test_the_thread_runs_through_when_nothing_is_killed() -> None:
    killed_at, judged, _ = play(None)
    assert killed_at is None
    assert list(breaches(judged)) == []
    assert [name for name, judgement in judged.items() if judgement.looked_at == 0] == []


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.cell.victim}, {r.cell.moment}") for r in ROWS])
def test_a_kill_breaks_no_invariant(row: Row) -> None:
    killed_at, judged, _ = play(row.cell)
    assert killed_at is not None
    assert set(judged) == NAMES
    assert list(breaches(judged)) == []
    assert {name for name in row.bites if judged[name].looked_at == 0} == set()


def test_two_runs_of_one_cell_are_the_same() -> None:
    cell = Cell(victim=Victim.SCALER, moment=Moment.DRAINING)
    assert play(cell) == play(cell)
