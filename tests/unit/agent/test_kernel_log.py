"""The kernel log: lines as drivers and Linux write them, storms, restarts, and files that shrink."""

import os
from pathlib import Path

import pytest

from gpuherd_agent.readings import KernelKind
from gpuherd_agent.sensors import kernel_log
from gpuherd_agent.sensors.kernel_lines import Record, parse_line, parse_record
from gpuherd_agent.sensors.kernel_log import Cursor, KernelLog

BOOT = "boot-1"
XID = "NVRM: Xid (PCI:0000:18:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(XID, (KernelKind.XID, 79, "0000:18:00", 1234), id="xid"),
        pytest.param(
            "NVRM: Xid (PCI:00000000:3B:00.0): 31, pid='<unknown>', name=<unknown>",
            (KernelKind.XID, 31, "0000:3b:00", None),
            id="long domain, no pid",
        ),
        pytest.param(
            "NVRM: Xid (0000:18:00): 13, Graphics", (KernelKind.XID, 13, "0000:18:00", None), id="old form"
        ),
        pytest.param(
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 12",
            (KernelKind.SXID, 12028, "0000:c1:00", None),
            id="sxid",
        ),
        pytest.param(
            "NVRM: GPU at PCI:0000:18:00: GPU has fallen off the bus",
            (KernelKind.BUS_LOST, 0, "0000:18:00", None),
            id="off the bus",
        ),
        pytest.param("NVRM: GPU has fallen off the bus", (KernelKind.BUS_LOST, 0, "", None), id="no address"),
        pytest.param(
            "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x26)",
            (KernelKind.INIT_FAILED, 0, "0000:18:00", None),
            id="init",
        ),
        pytest.param(
            "Memory cgroup out of memory: Killed process 77 (x)", (KernelKind.OOM, 0, "", 77), id="cgroup oom"
        ),
        pytest.param(
            "nvidia 0000:18:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            (KernelKind.PCIE, 0, "0000:18:00", None),
            id="aer",
        ),
    ],
)
def test_a_line_is_read_as_its_writer_meant_it(line: str, expected: tuple[object, ...]) -> None:
    event = parse_line(line)
    assert event is not None
    assert (event.kind, event.code, event.bus, event.pid) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "usb 1-1: new",
        "NVRM: loading NVIDIA UNIX Open Kernel Module",
        "NVRM: Xid (PCI:junk): 79",
        "Xid 79",
        "x" * 99_999,
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parse_line(line) is None


def test_a_record_of_the_device_has_sequence_and_text_without_continuations() -> None:
    raw = b"6,339,5140900,-;NVRM: loading\n SUBSYSTEM=pci\n"
    assert parse_record(raw) == Record(sequence=339, microseconds=5_140_900, text="NVRM: loading")
    assert parse_record(b"junk") is None


def test_only_what_comes_after_the_first_look_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(XID + "\n")
    log = KernelLog(path, BOOT)
    assert log.read(0.0).events == ()
    with path.open("a") as file:
        file.write(XID + "\n")
    assert [event.code for event in log.read(1.0).events] == [79]
    assert log.read(2.0).events == ()
    log.close()


def test_a_restart_goes_on_where_the_last_run_stopped_and_tells_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x\n")
    first = KernelLog(path, BOOT)
    first.read(0.0)
    with path.open("a") as file:
        file.write(XID + "\n")
    assert len(first.read(1.0).events) == 1
    first.close()
    with path.open("a") as file:
        file.write(XID.replace("79", "31") + "\n")
    second = KernelLog(path, BOOT, first.cursor)
    assert [event.code for event in second.read(2.0).events] == [31]
    second.close()


def test_a_cursor_of_an_earlier_boot_is_worthless(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(XID + "\n")
    log = KernelLog(path, BOOT, Cursor(boot_id="boot-0", position=0))
    assert log.read(0.0).events == ()
    log.close()


def test_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("")
    log = KernelLog(path, BOOT)
    log.read(0.0)
    with path.open("a") as file:
        file.write(XID)
        file.flush()
        assert log.read(1.0).events == ()
        file.write("\n")
    assert len(log.read(2.0).events) == 1
    log.close()


def test_a_file_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 1_000 + "\n")
    log = KernelLog(path, BOOT)
    log.read(0.0)
    path.write_text(XID + "\n")
    assert len(log.read(1.0).events) == 1
    log.close()


def test_a_storm_is_counted_and_told_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("")
    log = KernelLog(path, BOOT)
    log.read(0.0)
    with path.open("a") as file:
        file.write((XID.replace("79", "45") + "\n") * 100_000)
    told, missed = 0, 0
    for look in range(1, 60):
        reading = log.read(float(look))
        told, missed = told + len(reading.events), missed + reading.missed
    assert told + missed == 100_000
    assert told <= 60 * kernel_log.SAME_PER_LOOK
    log.close()


def test_a_log_that_cannot_be_read_says_why_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = KernelLog(path, BOOT)
    assert "No such file" in log.read(0.0).why_blind
    path.write_text("")
    assert log.read(1.0).why_blind == ""
    log.close()


def test_the_kernel_of_this_machine_is_read_without_waiting() -> None:
    # Where the log is hidden any file of the kernel will do.
    path = Path("/dev/kmsg" if os.access("/dev/kmsg", os.R_OK) else "/proc/version")
    log = KernelLog(path, BOOT)
    assert log.read(0.0).events == ()
    log.close()
