"""The child that gathers an evidence bundle: one tar on the node, bounded, for a person or the vendor.

``python -m gpuherd_agent.evidence_child FOLDER NAME KERNEL_LOG`` adds to what lies in FOLDER the kernel's
log, processes and versions, packs FOLDER into ``FOLDER/../NAME.tar.gz`` and prints one line of JSON. In a
child since /proc of a process that hangs in the kernel may block its reader. It never calls the driver.
"""

import io
import os
import platform
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

FILE_MAX: Final = 1_048_576
LOG_MAX: Final = 524_288
PROCESSES_MAX: Final = 4_000
KEPT: Final = 10
"""Bundles that stay on the node, newest first."""

_OF_GPUS: Final = (
    b"NVRM",
    b"Xid",
    b"nvidia",
    b"pcieport",
    b"AER:",
    b"nvlink",
    b"SXid",
    b"mce:",
    b"Out of memory",
)
_COMMAND_MAX: Final = 300
_VERSIONS: Final = (
    "/proc/driver/nvidia/version",
    "/proc/version",
    "/proc/cmdline",
    "/proc/uptime",
    "/proc/meminfo",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/etc/os-release",
)


class Packed(msgspec.Struct, frozen=True):
    """What was made."""

    path: str
    size_bytes: int
    files: int
    missing: tuple[str, ...] = ()


def kernel_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of the kernel's log that can be read now; ``/dev/kmsg`` hands out one a read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    rest = b""
    try:
        while True:
            try:
                chunk = os.read(handle, 65_536)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read; the next read goes on behind them
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
    finally:
        os.close(handle)
    if rest:
        yield rest


def log_slice(lines: Sequence[bytes], *, most_bytes: int = LOG_MAX) -> bytes:
    """Return the newest lines about GPUs, and as many of the newest others as there is room for."""
    about = _newest([line for line in lines if any(word in line for word in _OF_GPUS)], most_bytes // 2)
    last = _newest(lines, most_bytes - sum(len(line) + 1 for line in about))
    parts = [b"# lines about GPUs, PCIe and memory", *about, b"", b"# the newest lines", *last]
    return b"\n".join(parts) + b"\n"


def _newest(lines: Sequence[bytes], most_bytes: int) -> list[bytes]:
    taken: list[bytes] = []
    for line in reversed(lines):
        most_bytes -= len(line) + 1
        if most_bytes < 0:
            break
        taken.append(line)
    return taken[::-1]


def process_lines(proc: Path = Path("/proc")) -> Iterator[str]:
    """Yield a line a process: pid, parent, state, where it waits in the kernel, command."""
    yield "pid parent state waits_in command"
    numbers = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    for pid in numbers[:PROCESSES_MAX]:
        try:
            fields = (proc / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
            state, parent = fields[0].decode(), fields[1].decode()
            # The command line of one that hangs in the kernel may block its reader.
            name = "comm" if state == "D" else "cmdline"
            words = (proc / str(pid) / name).read_bytes().replace(b"\0", b" ").strip()
        except (OSError, IndexError):
            continue
        wait = _text(proc / str(pid) / "wchan", 80).strip() or "-"
        yield f"{pid} {parent} {state} {wait} {words.decode(errors='replace')[:_COMMAND_MAX]}"


def _text(path: Path, most: int = 65_536) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""


def version_lines() -> Iterator[str]:
    """Yield what the host runs."""
    yield f"# python\n{sys.version}\n# kernel\n{platform.platform()}"
    for name in _VERSIONS:
        yield f"# {name}\n{_text(Path(name), 8_192).rstrip()}"


def gather(folder: Path, kernel_log: Path) -> tuple[str, ...]:
    """Add our files to the folder; return what could not be had, with the reason."""
    missing = []
    try:
        (folder / "kernel.log").write_bytes(log_slice(list(kernel_lines(kernel_log))))
    except OSError as error:
        missing.append(f"kernel.log: {kernel_log}: {error.strerror}")
    (folder / "processes.txt").write_text("\n".join(process_lines()) + "\n")
    (folder / "versions.txt").write_text("\n".join(version_lines()) + "\n")
    return tuple(missing)


def pack(folder: Path, name: str, missing: tuple[str, ...] = ()) -> Packed:
    """Pack the folder's files, each cut to FILE_MAX, and return where; older bundles beyond KEPT go."""
    path = folder.parent / f"{name}.tar.gz"
    fresh = path.with_suffix(".part")
    files = sorted(entry for entry in folder.iterdir() if entry.is_file())
    with tarfile.open(fresh, "w:gz") as tar:
        for file in files:
            with file.open("rb") as stream:
                content = stream.read(FILE_MAX)
            about = tarfile.TarInfo(f"{name}/{file.name}")
            about.size, about.mode, about.mtime = len(content), 0o600, int(file.stat().st_mtime)
            tar.addfile(about, io.BytesIO(content))
    fresh.chmod(0o600)
    fresh.replace(path)
    bundles = sorted(folder.parent.glob("*.tar.gz"), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in bundles[KEPT:]:
        old.unlink(missing_ok=True)
    return Packed(path=str(path), size_bytes=path.stat().st_size, files=len(files), missing=missing)


def main() -> None:
    """Gather, pack, and print the end."""
    folder, name, kernel_log = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    packed = pack(folder, name, gather(folder, kernel_log))
    sys.stdout.write(msgspec.json.encode(packed).decode() + "\n")


if __name__ == "__main__":
    main()
