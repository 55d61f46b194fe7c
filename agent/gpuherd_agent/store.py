"""The durable store of one node: SQLite in WAL mode, each save on disk before it returns.

A second agent on the same store is refused. A store that is no longer readable is set aside, never
deleted, and the node starts as one that lost its state.
"""

import fcntl
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gpuherd.errors import HerdError
from gpuherd_agent.memory import NodeMemory

_NAME: Final = "agent.sqlite3"


class StoreBusy(HerdError):
    """Another agent uses this state folder; nothing was changed."""


class StoreFailed(HerdError):
    """The disk refused a write: the change is not durable and must not be acted on."""


class Store:
    """Loads and saves one NodeMemory, field by field so that a save writes only what changed."""

    def __init__(self, folder: Path) -> None:
        """Open or create the store in ``folder``.

        Raises StoreBusy when another process has it open, StoreFailed when the folder is unusable.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "agent.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFailed(f"state folder {folder}: {error.strerror}; mend state_dir") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StoreBusy(
                f"another agent uses {folder}; stop it or give this one its own state_dir"
            ) from error
        path = folder / _NAME
        self.set_aside: Path | None = None
        try:
            self._database = _open(path)
        except sqlite3.DatabaseError:
            self.set_aside = _move_aside(path)
            self._database = _open(path)
        self._written: dict[str, bytes] = dict(self._database.execute("select field, value from memory"))
        self.was_new = not self._written

    def load(self) -> NodeMemory:
        """Return what was saved last; fields that this version does not know are left alone."""
        known = {f.name for f in msgspec.structs.fields(NodeMemory)}
        parts = {k: msgspec.json.decode(v) for k, v in self._written.items() if k in known}
        return msgspec.convert(parts, NodeMemory)

    def save(self, memory: NodeMemory) -> None:
        """Write what changed and return once it is on disk; raises StoreFailed and has changed nothing."""
        fields = {n: msgspec.json.encode(getattr(memory, n)) for n in memory.__struct_fields__}
        changed = {name: value for name, value in fields.items() if self._written.get(name) != value}
        if changed:
            self._write(changed)
            self._written.update(changed)

    def _write(self, changed: Mapping[str, bytes]) -> None:
        try:
            with self._database:
                self._database.execute("begin immediate")
                self._database.executemany(
                    "insert into memory(field, value) values(?, ?) "
                    "on conflict(field) do update set value = excluded.value",
                    changed.items(),
                )
        except sqlite3.Error as error:
            raise StoreFailed(
                f"cannot record a change: {error}; free or mend the disk of state_dir"
            ) from error

    def close(self) -> None:
        """Close the file and let another agent have it."""
        self._database.close()
        os.close(self._lock)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=full")
        database.execute("create table if not exists memory(field text primary key, value blob not null)")
        (found,) = database.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _move_aside(path: Path) -> Path:
    """Keep the unreadable files for a person to look at."""
    number = 1
    while (aside := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside
