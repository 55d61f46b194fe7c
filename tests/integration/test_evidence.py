"""The evidence bundle: what is in it, how large it gets, and what a broken host leaves out."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gpuherd_agent.evidence_child import FILE_MAX, KEPT, kernel_lines, log_slice, pack, process_lines


def bundle(folder: Path, kernel_log: Path) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "gpuherd_agent.evidence_child",
        str(folder),
        "gpu-1-node",
        str(kernel_log),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_bundle_holds_what_the_agent_left_and_what_the_host_tells(tmp_path: Path) -> None:
    folder = tmp_path / "gathering"
    folder.mkdir()
    (folder / "readings.json").write_text("{}")
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1,-;usb 1-1: new device\n4,2,2,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n"
    )
    told = bundle(folder, log)
    path = Path(str(told["path"]))
    assert (path.stat().st_mode & 0o777, told["missing"]) == (0o600, [])
    with tarfile.open(path) as tar:
        names = sorted(Path(name).name for name in tar.getnames())
        kernel = tar.extractfile("gpu-1-node/kernel.log")
        assert kernel is not None
        said = kernel.read().decode()
        processes = tar.extractfile("gpu-1-node/processes.txt")
        assert processes is not None
        assert f"\n{os.getpid()} " in processes.read().decode()
    assert names == ["kernel.log", "processes.txt", "readings.json", "versions.txt"]
    assert said.index("Xid") < said.index("usb 1-1")


def test_a_kernel_log_that_cannot_be_read_is_told_and_the_rest_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "gathering"
    folder.mkdir()
    told = bundle(folder, tmp_path / "none")
    assert "No such file" in str(told["missing"])
    assert told["files"] == 2


def test_a_log_of_any_length_is_cut_and_lines_about_gpus_outlast_chatter() -> None:
    lines = [b"NVRM: Xid 79"] + [b"chatter %d" % i for i in range(100_000)]
    said = log_slice(lines, most_bytes=10_000)
    assert len(said) < 10_200
    assert b"NVRM: Xid 79" in said
    assert b"chatter 99999" in said
    assert b"chatter 1\n" not in said


def test_files_and_bundles_are_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "gathering"
    folder.mkdir()
    (folder / "readings.json").write_bytes(b"x" * (FILE_MAX + 10))
    for number in range(KEPT + 3):
        packed = pack(folder, f"b{number:02}")
        os.utime(packed.path, (number, number))
    with tarfile.open(packed.path) as tar:
        assert tar.getmember(f"b{KEPT + 2:02}/readings.json").size == FILE_MAX
    assert len(list(tmp_path.glob("*.tar.gz"))) <= KEPT + 1
    assert not list(tmp_path.glob("*.part"))


def test_a_process_that_hangs_in_the_kernel_is_named_without_its_command_line(tmp_path: Path) -> None:
    for pid, state in ((7, "D"), (8, "S")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {state} 1 1 1")
        (tmp_path / str(pid) / "comm").write_text("python\n")
        (tmp_path / str(pid) / "cmdline").write_bytes(b"python\0train.py\0")
    assert list(process_lines(tmp_path))[1:] == ["7 1 D - python", "8 1 S - python train.py"]


def test_the_kernels_own_log_is_read_without_waiting() -> None:
    try:
        lines = list(kernel_lines(Path("/dev/kmsg")))
    except OSError:
        pytest.skip("this host lets nobody read /dev/kmsg")
    assert all(b"\n" not in line for line in lines)
