"""The durable store: what is saved is there after a crash, and a broken file is kept aside."""

import sqlite3
from pathlib import Path

import msgspec
import pytest
from tests.kit.node import RAYLET, desired, hold, ordered, sick

from gpuherd.ray import DrainReason
from gpuherd_agent.memory import DrainRecord, NodeMemory
from gpuherd_agent.store import Store, StoreBusy, StoreFailed

FULL = msgspec.structs.replace(
    ordered(NodeMemory(epoch=7), desired(3, hold("h1"), lifted=("h0",))),
    raylet=RAYLET,
    may_hold_slot=True,
    latched=sick().findings,
    executed=("c1",),
    drain=DrainRecord(
        node_id=RAYLET.node_id,
        boot_id="boot-1",
        reason=DrainReason.PREEMPTION,
        message="x",
        asked_boot_s=1.5,
        deadline_boot_s=2.5,
        rank=2,
    ),
)


def test_everything_comes_back_after_a_crash(tmp_path: Path) -> None:
    first = Store(tmp_path)
    assert first.was_new
    first.save(FULL)
    first.close()
    second = Store(tmp_path)
    assert not second.was_new
    assert second.load() == FULL
    second.close()


def test_a_second_agent_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = Store(tmp_path)
    with pytest.raises(StoreBusy, match="state_dir"):
        Store(tmp_path)
    first.close()


def test_an_unreadable_file_is_set_aside_and_the_node_is_new(tmp_path: Path) -> None:
    (tmp_path / "agent.sqlite3").write_bytes(b"not a database at all" * 100)
    store = Store(tmp_path)
    assert store.was_new
    assert store.set_aside is not None
    assert store.set_aside.read_bytes().startswith(b"not a database")
    store.close()


def test_an_unusable_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="state_dir"):
        Store(tmp_path / "file")


def test_a_disk_that_refuses_leaves_the_last_save_standing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(FULL)
    store._database.execute("pragma query_only=on")
    with pytest.raises(StoreFailed, match="disk"):
        store.save(NodeMemory(epoch=8))
    store._database.execute("pragma query_only=off")
    assert store.load() == FULL
    store.save(NodeMemory(epoch=8))
    store.close()


def test_a_field_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(FULL)
    store.close()
    with sqlite3.connect(tmp_path / "agent.sqlite3") as database:
        database.execute("insert into memory values('unheard_of', '3')")
    database.close()
    again = Store(tmp_path)
    assert again.load() == FULL
    again.close()
