"""Ports and mounts that do not answer: real programs, and a real file system whose server is silent."""

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gpuherd.shell.clock import SystemClock
from gpuherd_agent.sensors.mounts import MountsSensor
from gpuherd_agent.sensors.ports import PortsSensor
from gpuherd_agent.sensors.sensor_settings import SensorSettings
from gpuherd_agent.surroundings import MountState

DETACH = 2


@contextlib.contextmanager
def silent_file_system(folder: Path) -> Iterator[None]:
    """Mount a FUSE file system that nobody serves: who asks it waits, as for an NFS server that is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        handle = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    options = f"fd={handle},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"silent", os.fsencode(folder), b"fuse", 0, options):
        os.close(handle)
        pytest.skip(f"mount: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.umount2(os.fsencode(folder), DETACH)
        os.close(handle)


def askers(folder: Path) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if str(folder) in (p.info["cmdline"] or [])]


async def test_a_silent_mount_costs_its_deadline_and_hides_no_other(tmp_path: Path) -> None:
    with silent_file_system(tmp_path):
        settings = SensorSettings(mounts=(str(tmp_path), "/proc", "/not/there"), mount_deadline_s=0.3)
        sensor = MountsSensor(settings, SystemClock())
        lags = []
        for _ in range(3):
            round_ = asyncio.ensure_future(sensor.round())
            while not round_.done():
                before = time.monotonic()
                await asyncio.sleep(0.01)
                lags.append(time.monotonic() - before)
            assert sensor.reading is not None
            states = [mount.state for mount in sensor.reading.mounts]
            assert states == [MountState.SILENT, MountState.OK, MountState.ABSENT]
            assert len(askers(tmp_path)) <= 1
    assert sensor.reading.mounts[0].detail
    await asyncio.sleep(0)
    assert not [p for p in askers(tmp_path) if p.status() != psutil.STATUS_ZOMBIE]


async def test_a_mount_that_answers_with_an_error_says_which(tmp_path: Path) -> None:
    settings = SensorSettings(mounts=(str(tmp_path / "gone"),), root=str(tmp_path))
    sensor = MountsSensor(settings, SystemClock())
    await sensor.round()
    assert sensor.reading is not None
    (mount,) = sensor.reading.mounts
    assert mount.state is MountState.FAILED
    assert "No such file or directory" in mount.detail


@contextlib.contextmanager
def freezer() -> Iterator[Path]:
    """Yield a cgroup whose members can be frozen: until it thaws, no signal ends them, as in state D."""
    root = Path("/sys/fs/cgroup/freezer")
    if not os.access(root / "tasks", os.W_OK):
        pytest.skip("no freezer of cgroup v1, in which alone a frozen process cannot be killed")
    group = root / f"gpuherd-test-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        (group / "freezer.state").write_text("THAWED")
        deadline = time.monotonic() + 10
        while (group / "tasks").read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        group.rmdir()


async def test_while_an_asker_hangs_in_the_kernel_no_second_one_is_started(tmp_path: Path) -> None:
    with freezer() as group:
        asker = tmp_path / "asker"
        freeze = f"echo $$ > {group}/tasks; echo FROZEN > {group}/freezer.state"
        asker.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\n{freeze}\n")
        asker.chmod(0o755)
        settings = SensorSettings(mounts=("/proc",), mount_deadline_s=0.2)
        sensor = MountsSensor(settings, SystemClock(), stat=asker)
        for _ in range(3):
            await sensor.round()
            assert sensor.reading is not None
            (mount,) = sensor.reading.mounts
            assert mount.state is MountState.SILENT
            assert "hangs in the kernel" in mount.detail
        assert len((tmp_path / "started").read_text().split()) == 1
        (group / "freezer.state").write_text("THAWED")
        while (group / "tasks").read_text():  # noqa: ASYNC110  the kernel has no event for it
            await asyncio.sleep(0.02)
        await sensor.round()
        assert len((tmp_path / "started").read_text().split()) == 2, "it is asked again once it can be"


async def test_the_ports_of_a_tree_are_read_by_a_child(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    sensor = PortsSensor(SensorSettings(root=str(tmp_path)), SystemClock())
    await sensor.look()
    assert sensor.reading is not None
    assert [(w.port.name, w.port.is_active) for w in sensor.reading.ports] == [("mlx5_0/1", True)]


async def test_an_adapter_that_does_not_answer_leaves_the_ports_unread(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    os.mkfifo(port / "state")  # opening it waits for a writer, as firmware that is gone is waited for
    sensor = PortsSensor(SensorSettings(root=str(tmp_path)), SystemClock(), deadline_s=0.5)
    await sensor.look()
    assert sensor.reading is not None
    assert sensor.reading.why_blind == "no answer within 0.5 s"
    assert not askers(tmp_path)
