"""Recordings: what is written is what was seen, whatever cuts it short, and it is judged the same again."""

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.hand_clock import HandClock
from tests.kit.node import CLUSTER, IDENTITY, NODE
from tests.kit.readings import cycle, gpu

from gpuherd.errors import Refused
from gpuherd.health import Severity
from gpuherd_agent import recorder as shell
from gpuherd_agent.readings import (
    DevicesReading,
    HostReading,
    KernelEvent,
    KernelKind,
    KernelReading,
    ProbeOutcome,
    ProbeReading,
    Snapshot,
)
from gpuherd_agent.recorder import Recorder
from gpuherd_agent.recording import LINE_MAX_BYTES, RecordingInvalid
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.sensors.recorded import Recorded, is_recording, verdicts
from gpuherd_agent.sensors.replay import Replay
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.surroundings import MountReading, MountsReading, MountState, PortsReading
from gpuherd_agent.verdict import Judge

HOST = HostReading(
    memory_total_bytes=2**64 - 1,
    memory_available_bytes=1,
    disk_total_bytes=1,
    disk_free_bytes=1,
    shm_free_bytes=None,
    load_1m=0.5,
    cpu_count=8,
    uptime_s=1.0,
)
XID = KernelEvent(kind=KernelKind.XID, code=79, bus="0000:00:00", pid=None, text='"\u2028\x00')


class Node:
    """Looks at two GPUs, one of which is lost from the fourth look on, and records."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock()
        self.told: list[tuple[str, str]] = []
        self.recorder = Recorder(
            folder, IDENTITY, self.clock, declared=2, tell=lambda kind, why: self.told.append((kind, why))
        )
        self.seen = Sightings()
        self.judge = Judge()
        self.looks: list[Snapshot] = []
        self.severities: list[Severity] = []

    def look(self, **changed: object) -> None:
        probe = cycle(gpu(0), gpu(1)) if len(self.looks) < 4 else cycle(gpu(0), counted=1)
        snapshot = self.seen.take(probe=probe, declared=2, now=self.clock.now())
        snapshot = replace(snapshot, **changed)  # type: ignore[arg-type]  # checked by replace
        verdict = self.judge.step(snapshot)
        self.recorder.take(snapshot, verdict)
        self.looks.append(snapshot)
        self.severities.append(verdict.severity)
        self.clock.at += 1.0


def written(node: Node, path: Path) -> Path:
    """Return the path once all of it is on the disk."""
    active = node.recorder._active
    node.recorder.stop("enough")
    if active is not None:
        assert active.writer.join(10.0)
    return path


def test_what_is_read_is_what_was_seen(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    devices = DevicesReading(at=1.0, pci=("0000:00:00",), driver=None, nodes=2)
    mounts = MountsReading(at=2.0, mounts=(MountReading(path="/data", state=MountState.SILENT),))
    node.look(host=HOST, devices=devices)
    node.look(host=HOST, devices=devices, kernel=KernelReading(at=2.0, events=(XID,), missed=3))
    node.look(probe=None, mounts=mounts, ports=PortsReading(at=1.0, why_blind="no"), ray_gpus=2)
    recorded = Recorded.open(written(node, path))
    looks = list(recorded.looks())
    assert [look.snapshot for look in looks] == node.looks
    assert (recorded.header.node, recorded.header.cluster, recorded.header.declared) == (NODE, CLUSTER, 2)
    assert (recorded.ended, recorded.skipped) == ("enough", 0)
    assert looks[0].snapshot.host is looks[1].snapshot.host, "told again, it is no second look"
    assert path.stat().st_mode & 0o777 == 0o600
    assert is_recording(path)


def test_it_is_judged_again_as_it_was(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    for _ in range(12):
        node.look()
    again = list(verdicts(Recorded.open(written(node, path)), RULES))
    assert [verdict.severity for _, _, verdict in again] == node.severities
    assert [look.severity for look, _, _ in again] == node.severities
    assert Severity.CRITICAL in node.severities
    assert [second for _, second, _ in again] == [float(second) for second in range(12)]


def test_it_ends_when_its_time_is_over_and_says_so(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(3.0)
    for _ in range(6):
        node.look()
    assert node.recorder.path is None
    assert node.told == [("recording.ended", f"{path}: its time is over; 4 looks")]


def test_one_at_a_time_and_none_for_ever(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(3.0)
    with pytest.raises(Refused, match="is being recorded"):
        node.recorder.start(3.0)
    written(node, path)
    for bad in (0.0, -1.0, float("nan"), 86_401.0):
        with pytest.raises(Refused, match="up to 24 h"):
            node.recorder.start(bad)


def test_the_folder_keeps_the_newest_few(tmp_path: Path) -> None:
    node = Node(tmp_path)
    paths = []
    for _ in range(shell.KEPT + 3):
        paths.append(written(node, node.recorder.start(5.0)))
        node.clock.at += 1.0
    assert sorted((tmp_path / shell.FOLDER).iterdir()) == paths[-shell.KEPT :]


def test_two_within_a_second_are_two_files(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first = written(node, node.recorder.start(5.0))
    assert written(node, node.recorder.start(5.0)) != first


def test_a_disk_that_takes_no_more_ends_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recorder.start(600.0)
    active = node.recorder._active
    assert active is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, active.writer._file.fileno())
    os.close(full)
    while not active.writer.error:
        node.look()
        active.writer.join(0.01)
    node.look()
    assert node.recorder.path is None
    assert "the disk took no more: No space left on device" in node.told[0][1]


def test_a_disk_that_does_not_keep_up_costs_looks_that_are_counted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    active = node.recorder._active
    assert active is not None
    active.writer._lines.put(b"")  # keeps the thread from being ahead of the test
    for _ in range(5_000):
        node.recorder.take(Snapshot(at=100.0, declared=2), node.judge.step(Snapshot(at=100.0, declared=2)))
    looks, skipped = active.looks, active.skipped
    recorded = Recorded.open(written(node, path))
    assert len([1 for _ in recorded.looks()]) == looks
    assert recorded.skipped == skipped
    assert looks + skipped == 5_000


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda _: b"", "no header|Input data", id="empty"),
        pytest.param(lambda _: b"\x00" * 50, "Input data|truncated|malformed", id="no gzip"),
        pytest.param(lambda _: gzip.compress(b'{"kind":"header"}\n'), "line 1", id="no such kind"),
        pytest.param(lambda _: gzip.compress(b'{"type":"look"}\n'), "line 1", id="no header first"),
        pytest.param(
            lambda raw: gzip.compress(gzip.decompress(raw).replace(b'"version":1', b'"version":9', 1)),
            "version 9",
            id="later version",
        ),
        pytest.param(lambda _: gzip.compress(b"[" * 100_000 + b"\n"), "line 1", id="deep"),
        pytest.param(lambda _: gzip.compress(b"x" * (LINE_MAX_BYTES + 9)), "longer than", id="long"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes], why: str) -> None:
    node = Node(tmp_path)
    path = written(node, node.recorder.start(5.0))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(RecordingInvalid, match=why):
        Recorded.open(path)


def test_one_that_was_cut_off_anywhere_is_good_up_to_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    for _ in range(25):
        node.look()
    raw = written(node, path).read_bytes()
    counts = []
    for size in range(0, len(raw), max(1, len(raw) // 60)):
        path.write_bytes(raw[:size])
        try:
            recorded = Recorded.open(path)
        except RecordingInvalid:
            continue
        counts.append(len(list(recorded.looks())))
        assert "cut off" in recorded.ended
    assert counts == sorted(counts)
    assert counts[-1] >= 20


def test_a_line_that_is_damaged_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    node.look()
    raw = gzip.decompress(written(node, path).read_bytes())
    path.write_bytes(gzip.compress(raw.replace(b'"declared":2', b'"declared":"x"', 2)))
    with pytest.raises(RecordingInvalid, match="line 1:"):
        Recorded.open(path)
    header = raw.splitlines(keepends=True)[0]
    path.write_bytes(gzip.compress(header + header))
    with pytest.raises(RecordingInvalid, match="line 2 is a second header"):
        list(Recorded.open(path).looks())


async def test_a_replay_shows_each_moment_at_its_time_and_every_kernel_line_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    for second in range(6):
        kernel = KernelReading(at=float(second), events=(replace(XID, code=second),), missed=1)
        node.look(kernel=kernel, host=replace(HOST, uptime_s=float(second)))
    clock = HandClock(at=5_000.0)
    replay = Replay(written(node, path), clock)
    senses = {sense.name: sense.look for sense in replay.senses()}
    assert (await replay.read()).counted == 2
    assert senses["kernel"](clock.at) == KernelReading(at=5_000.0, events=(replace(XID, code=0),), missed=1)
    clock.at += 3.0
    assert (await replay.read()).counted == 2
    late = senses["kernel"](clock.at)
    assert isinstance(late, KernelReading)
    assert ([event.code for event in late.events], late.missed) == ([1, 2, 3], 3)
    clock.at += 2.0
    assert (await replay.read()).counted == 1
    host = senses["host"](clock.at)
    assert host is senses["host"](clock.at), "what is told again is no second look"
    clock.at += 60.0
    assert await replay.read() == ProbeReading(outcome=ProbeOutcome.STARTING)
    with pytest.raises(FileNotFoundError):
        senses["host"](clock.at)


async def test_a_replay_that_is_damaged_ends_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.recorder.start(600.0)
    for _ in range(3):
        node.look()
    lines = gzip.decompress(written(node, path).read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join((*lines[:3], b"{]\n", *lines[3:]))))
    clock = HandClock()
    replay = Replay(path, clock)
    assert (await replay.read()).outcome is ProbeOutcome.OK
    clock.at += 10.0
    assert (await replay.read()).outcome is ProbeOutcome.OK
    clock.at += 10.0
    assert (await replay.read()).outcome is ProbeOutcome.STARTING
