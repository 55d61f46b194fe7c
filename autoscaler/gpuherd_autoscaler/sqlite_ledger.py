"""The ledger in SQLite: WAL, a full sync for each commit, one writer.

A file that is no longer sound is set aside for a person to look at, never deleted, and the ledger begins
anew; the caller then only recommends. Reads of orders, term and mode come from memory.
"""

import fcntl
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from gpuherd.names import NodeName, OperationId
from gpuherd_autoscaler.ledger import Change, Event, LedgerFailed, Mode, Note, Operation, Order
from gpuherd_autoscaler.wishes import Wishes

SCHEMA: Final = 1
KEPT_EVENTS: Final = 10_000
KEPT_CLOSED: Final = 2_000
"""Closed operations beyond this many are forgotten, oldest first; open ones never are."""

_TABLES: Final = """
create table if not exists facts(name text primary key, value text not null);
create table if not exists orders(node text primary key, body blob not null);
create table if not exists operations(
  id text primary key, is_open integer not null, created_at real not null,
  request_key text, body blob not null);
create index if not exists operations_by_time on operations(is_open, created_at);
create unique index if not exists operations_by_key on operations(request_key) where request_key <> '';
create table if not exists events(id integer primary key autoincrement, body blob not null);
"""


class SqliteLedger:
    """Implements ``ledger.Ledger`` in one file of ``folder``."""

    def __init__(self, folder: Path) -> None:
        """Open or create the ledger.

        Raises LedgerFailed when the folder is unusable or another scaler has it open, or when the file
        is of a newer schema. ``set_aside`` names the file that was found unsound.
        """
        self._lock = _locked(folder)
        path = folder / "ledger.sqlite3"
        self.set_aside: Path | None = None
        try:
            self._begin(path)
        except BaseException:
            os.close(self._lock)
            raise

    def _begin(self, path: Path) -> None:
        """Open the file, or set an unsound one aside and begin anew, recommending only."""
        try:
            self._load(path)
        except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise _unusable(path, error) from error
            try:
                self.set_aside = _move_aside(path)
                self._load(path)
            except (OSError, sqlite3.Error) as second:
                raise _unusable(path, second) from second
            self.commit(Change(mode=Mode.RECOMMEND))

    def _load(self, path: Path) -> None:
        self._database = _open(path)
        try:
            facts = dict(self._database.execute("select name, value from facts"))
            self._term = int(facts.get("term", 0))
            self._mode = Mode(facts["mode"]) if "mode" in facts else None
            self._wishes = msgspec.json.decode(facts.get("wishes", "{}"), type=Wishes)
            bodies = self._database.execute("select body from orders")
            self._orders = {o.node: o for o in (msgspec.json.decode(b, type=Order) for (b,) in bodies)}
            self.operations(only_open=True)  # each must be readable: they are looked at in every turn
        except BaseException:
            self._database.close()
            raise
        self.was_empty = not facts and not self._orders

    @property
    def term(self) -> int:
        """Return the highest term taken."""
        return self._term

    @property
    def mode(self) -> Mode | None:
        """Return the mode set last."""
        return self._mode

    @property
    def wishes(self) -> Wishes:
        """Return what people set last, also what is over by now."""
        return self._wishes

    @property
    def orders(self) -> Mapping[NodeName, Order]:
        """Return each node's order, as a view."""
        return MappingProxyType(self._orders)

    def commit(self, change: Change) -> tuple[Event, ...]:
        """Write the change in one transaction; raises LedgerFailed and nothing of it is true then."""
        if change.is_empty:
            return ()
        try:
            with self._database:
                self._database.execute("begin immediate")
                events = self._write(change)
        except sqlite3.Error as error:
            raise LedgerFailed(f"cannot record: {error}; free or mend the disk of state_dir") from error
        if change.term is not None:
            self._term = change.term
        if change.mode is not None:
            self._mode = change.mode
        if change.wishes is not None:
            self._wishes = change.wishes
        self._orders.update({o.node: o for o in change.orders})
        return events

    def _write(self, change: Change) -> tuple[Event, ...]:
        write = self._database.execute
        wishes = None if change.wishes is None else msgspec.json.encode(change.wishes).decode()
        for name, value in (("term", change.term), ("mode", change.mode), ("wishes", wishes)):
            if value is not None:
                write("insert or replace into facts values(?, ?)", (name, str(value)))
        for order in change.orders:
            write("insert or replace into orders values(?, ?)", (order.node, msgspec.json.encode(order)))
        for operation in change.operations:
            write(
                "insert into operations values(?, ?, ?, ?, ?) on conflict(id) do update set"
                " is_open = excluded.is_open, body = excluded.body",
                (
                    operation.id,
                    operation.is_open,
                    operation.created_at,
                    operation.request_key,
                    msgspec.json.encode(operation),
                ),
            )
        events = tuple(self._numbered(note) for note in change.notes)
        self._forget(events, is_closing=any(not o.is_open for o in change.operations))
        return events

    def _numbered(self, note: Note) -> Event:
        row = self._database.execute("insert into events(body) values(?)", (msgspec.json.encode(note),))
        return Event(id=row.lastrowid or 0, note=note)

    def _forget(self, events: tuple[Event, ...], *, is_closing: bool) -> None:
        if events:
            self._database.execute("delete from events where id <= ?", (events[-1].id - KEPT_EVENTS,))
        if is_closing:
            self._database.execute(
                "delete from operations where is_open = 0 and id not in (select id from operations"
                " where is_open = 0 order by created_at desc limit ?)",
                (KEPT_CLOSED,),
            )

    def operation(self, operation_id: OperationId) -> Operation | None:
        """Return one operation."""
        return self._one("select body from operations where id = ?", operation_id)

    def requested(self, request_key: str) -> Operation | None:
        """Return the operation that a request with this key led to."""
        return self._one(
            "select body from operations where request_key = ? and request_key <> ''", request_key
        )

    def _one(self, query: str, value: str) -> Operation | None:
        rows = self._read(query, value)
        return msgspec.json.decode(rows[0][0], type=Operation) if rows else None

    def operations(self, *, only_open: bool = False, limit: int = 1_000) -> tuple[Operation, ...]:
        """Return operations, newest first; of open ones all."""
        rows = self._read(
            "select body from operations where is_open >= ? order by created_at desc, rowid desc limit ?",
            int(only_open),
            -1 if only_open else limit,
        )
        return tuple(msgspec.json.decode(body, type=Operation) for (body,) in rows)

    def events(self, *, after: int, limit: int = 1_000) -> tuple[Event, ...]:
        """Return kept events with numbers above ``after``, oldest first."""
        rows = self._read("select id, body from events where id > ? order by id limit ?", after, limit)
        return tuple(Event(id=i, note=msgspec.json.decode(body, type=Note)) for i, body in rows)

    def _read(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            raise LedgerFailed(f"cannot read: {error}; mend the disk of state_dir") from error

    def close(self) -> None:
        """Close the file and let another scaler have it."""
        self._database.close()
        os.close(self._lock)


def _unusable(path: Path, error: Exception) -> LedgerFailed:
    return LedgerFailed(f"ledger {path}: {error}; free or mend the disk of state_dir")


def _locked(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / "ledger.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerFailed(f"state folder {folder}: {error.strerror}; mend state_dir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise LedgerFailed(f"another scaler uses {folder}; stop it or give this one its own") from error
    return lock


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=full")
        (found,) = database.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        _migrate(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("pragma user_version").fetchone()
    if version > SCHEMA:
        raise LedgerFailed(
            f"ledger {path} is of schema {version}, this version knows {SCHEMA}: upgrade gpuherd"
        )
    if version < SCHEMA:
        database.executescript(_TABLES)
        database.execute(f"pragma user_version = {SCHEMA}")


def _move_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.unsound-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside
