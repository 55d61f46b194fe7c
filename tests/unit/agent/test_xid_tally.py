"""Xids counted by board and code, within bounds."""

from dataclasses import replace

from tests.kit.readings import cycle, gpu, look, uuid

from gpuherd_agent.readings import KernelEvent, KernelKind, KernelReading, Snapshot
from gpuherd_agent.xid_tally import KEPT, Xids, XidTally


def told(*events: KernelEvent, missed: int = 0) -> Snapshot:
    return replace(look(cycle(gpu(3))), kernel=KernelReading(at=0.0, events=events, missed=missed))


def xid(code: int, bus: str = "0000:03:00") -> KernelEvent:
    return KernelEvent(kind=KernelKind.XID, code=code, bus=bus)


def test_xids_are_counted_by_board_and_code_with_the_last_time() -> None:
    tally = XidTally()
    tally.take(told(xid(31), xid(31), xid(79)), 100.0)
    tally.take(told(xid(31), xid(45, bus="0000:99:00"), missed=7), 200.0)
    assert list(tally.xids()) == [
        Xids("", 45, 1, 200.0),
        Xids(uuid(3), 31, 3, 200.0),
        Xids(uuid(3), 79, 1, 100.0),
    ]
    assert tally.missed == 7


def test_nonsense_does_not_fill_the_memory() -> None:
    tally = XidTally()
    for code in range(2 * KEPT):
        tally.take(told(xid(code)), 0.0)
    assert len(list(tally.xids())) == KEPT


def test_a_host_whose_log_is_not_read_counts_nothing() -> None:
    tally = XidTally()
    tally.take(look(cycle(gpu(0))), 0.0)
    assert list(tally.xids()) == []
