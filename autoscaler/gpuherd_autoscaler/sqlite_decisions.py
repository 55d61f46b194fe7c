"""Kept decisions in a file of their own: losing it changes nothing that is done, so it is synced lazily.

A file that is unsound or of another schema is begun anew.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from gpuherd_autoscaler.decisions import Decision
from gpuherd_autoscaler.ledger import LedgerFailed, Mode

SCHEMA: Final = 1
KEPT: Final = 2_000
"""Decisions beyond this many are forgotten, oldest first. A busy day makes some hundred different ones."""

_TABLES: Final = """
create table decisions(
  id integer primary key autoincrement, at real not null, last_at real not null, times integer not null,
  term integer not null, mode text not null, words text not null, plan blob not null, inputs blob not null);
create index decisions_by_time on decisions(at);
"""
_SELECT: Final = "select id, at, last_at, times, term, mode, words, plan, inputs from decisions "
_Row = tuple[int, float, float, int, int, str, str, bytes, bytes]


class SqliteDecisions:
    """Decisions in ``folder``; the ledger's lock on the folder makes this the only writer."""

    def __init__(self, folder: Path) -> None:
        """Open or create the file; raises LedgerFailed when the folder is unusable."""
        path = folder / "decisions.sqlite3"
        try:
            self._database = _open(path)
        except (sqlite3.DatabaseError, OSError) as error:
            raise LedgerFailed(f"{path}: {error}; free or mend the disk of state_dir") from error

    def keep(self, decision: Decision) -> int:
        """Write a decision, or the raised count of one that has a number; return its number.

        Raises LedgerFailed.
        """
        try:
            if decision.id:
                self._database.execute(
                    "update decisions set last_at = ?, times = ? where id = ?",
                    (decision.last_at, decision.times, decision.id),
                )
                return decision.id
            return self._insert(decision)
        except sqlite3.Error as error:
            raise LedgerFailed(f"cannot keep the decision: {error}") from error

    def _insert(self, decision: Decision) -> int:
        values = (
            *(decision.at, decision.last_at, decision.times, decision.term, decision.mode.value),
            *(decision.words, decision.plan, decision.inputs),
        )
        row = self._database.execute(
            "insert into decisions(at, last_at, times, term, mode, words, plan, inputs)"
            " values(?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        number = row.lastrowid or 0
        self._database.execute("delete from decisions where id <= ?", (number - KEPT,))
        return number

    def decisions(self, *, limit: int = 100) -> tuple[Decision, ...]:
        """Return kept decisions, newest first."""
        return self._read(_SELECT + "order by id desc limit ?", limit)

    def decision(self, number: int) -> Decision | None:
        """Return one decision."""
        return next(iter(self._read(_SELECT + "where id = ?", number)), None)

    def decision_at(self, wall: float) -> Decision | None:
        """Return the decision that stood at this instant: the newest one made before."""
        query = _SELECT + "where at <= ? order by at desc, id desc limit 1"
        return next(iter(self._read(query, wall)), None)

    def _read(self, query: str, value: float) -> tuple[Decision, ...]:
        try:
            rows = self._database.execute(query, (value,)).fetchall()
        except sqlite3.Error as error:
            raise LedgerFailed(f"cannot read decisions: {error}") from error
        return tuple(_decision(row) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _decision(row: _Row) -> Decision:
    number, at, last_at, times, term, mode, words, plan, inputs = row
    return Decision(
        id=number,
        at=at,
        last_at=last_at,
        times=times,
        term=term,
        mode=Mode(mode),
        words=words,
        plan=plan,
        inputs=inputs,
    )


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        (version,) = database.execute("pragma user_version").fetchone()
        (sound,) = database.execute("pragma quick_check(1)").fetchone()
    except sqlite3.DatabaseError:
        version, sound = -1, "unsound"
    if version not in (0, SCHEMA) or sound != "ok":
        database.close()
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).unlink()
        database, version = sqlite3.connect(path, isolation_level=None), 0
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=normal")
    if version == 0:
        database.executescript(_TABLES)
        database.execute(f"pragma user_version = {SCHEMA}")
    return database
