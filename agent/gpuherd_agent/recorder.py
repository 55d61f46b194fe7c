"""Writes recordings: one at a time, for a while, into a folder that holds the newest few.

The file is written by a thread, so that a disk that does not keep up costs looks and no tick. What is on the
disk is readable at any moment: a recording that an agent's end cuts off is good up to there.
"""

import contextlib
import gzip
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd import __version__
from gpuherd.errors import Refused
from gpuherd.health import Verdict
from gpuherd.shell.clock import Clock
from gpuherd_agent.doors import Identity
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.recording import End, Header, Look, encode

FOLDER: Final = "recordings"
SUFFIX: Final = ".jsonl.gz"
FILE_MAX_BYTES: Final = 64 * 1024 * 1024
"""About a day of eight GPUs at a look a second."""
KEPT: Final = 8
FOR_MAX_S: Final = 86_400.0
_WAITING_MAX: Final = 32
"""Looks that wait for the disk; about half a megabyte."""
_FLUSH_LINES: Final = 10


class Writer:
    """One file and the thread that writes it; raises OSError when it cannot be made."""

    def __init__(self, path: Path) -> None:
        self.error = ""
        """Why no more is written; empty = all is well."""
        self.written_bytes = 0
        self._file = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
        )
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def take(self, line: bytes) -> bool:
        """Hand over a line; False = the disk does not keep up, and the line is left out."""
        if self.error or self._lines.qsize() >= _WAITING_MAX:
            return False
        self._lines.put(line)
        return True

    def end(self, line: bytes) -> None:
        """Hand over the last line; the thread ends with it."""
        self._lines.put(line)
        self._lines.put(None)

    def join(self, within_s: float) -> bool:
        """Wait until all is written; False = it is not."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._file, gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=6, mtime=0) as packed:
                number = 0
                while (line := self._lines.get()) is not None:
                    packed.write(line)
                    number += 1
                    if number % _FLUSH_LINES == 1:
                        packed.flush()
                        self.written_bytes = self._file.tell()
        except OSError as error:
            self.error = error.strerror or str(error)


@dataclass(slots=True)
class _Active:
    """The recording under way."""

    path: Path
    writer: Writer
    until: float
    looks: int = 0
    skipped: int = 0


class Recorder:
    """Give it every look; it keeps those of a recording that was asked for."""

    def __init__(
        self,
        state_dir: Path,
        identity: Identity,
        clock: Clock,
        *,
        declared: int,
        tell: Callable[[str, str], None],
    ) -> None:
        """``tell`` hears (kind, reason) of a recording's end."""
        self._folder = state_dir / FOLDER
        self._identity = identity
        self._clock = clock
        self._declared = declared
        self._tell = tell
        self._active: _Active | None = None

    @property
    def path(self) -> Path | None:
        """Return the file of the recording under way."""
        return self._active.path if self._active is not None else None

    def start(self, for_s: float) -> Path:
        """Begin a recording and return its file; raises Refused beside another one, and OSError."""
        if self._active is not None:
            raise Refused(f"{self._active.path} is being recorded; `agentctl record NODE --stop` ends it")
        if not 0 < for_s <= FOR_MAX_S:
            raise Refused(f"a recording lasts up to {FOR_MAX_S / 3_600:g} h")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room()
        wall, now = self._clock.wall(), self._clock.now()
        path = self._free_path(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall)))
        writer = Writer(path)
        header = Header(
            cluster=self._identity.cluster,
            node=self._identity.node,
            agent=__version__,
            boot_id=self._identity.boot_id,
            declared=self._declared,
            wall=wall,
            at=now,
        )
        writer.take(encode(header))
        self._active = _Active(path, writer, until=now + for_s)
        return path

    def take(self, snapshot: Snapshot, verdict: Verdict) -> None:
        """Keep this look while a recording is under way; the last one ends it."""
        active = self._active
        if active is None:
            return
        look = Look(
            wall=self._clock.wall(),
            snapshot=snapshot,
            severity=verdict.severity,
            action=verdict.action,
            rules=tuple(sorted({finding.rule for finding in verdict.findings})),
        )
        if active.writer.take(encode(look)):
            active.looks += 1
        else:
            active.skipped += 1
        if active.writer.error:
            self.stop(f"the disk took no more: {active.writer.error}")
        elif active.writer.written_bytes >= FILE_MAX_BYTES:
            self.stop(f"it has {FILE_MAX_BYTES >> 20} MiB, the most that one may have")
        elif snapshot.at >= active.until:
            self.stop("its time is over")

    def stop(self, why: str) -> Path | None:
        """End the recording under way and return its file; None = there is none."""
        active, self._active = self._active, None
        if active is None:
            return None
        active.writer.end(encode(End(why=why, looks=active.looks, skipped=active.skipped)))
        skipped = f", {active.skipped} skipped" if active.skipped else ""
        self._tell("recording.ended", f"{active.path}: {why}; {active.looks} looks{skipped}")
        return active.path

    def close(self) -> None:
        """End what is under way and give the disk a moment."""
        active = self._active
        self.stop("the agent ended")
        if active is not None:
            active.writer.join(1.0)

    def _make_room(self) -> None:
        """Leave the newest few, so that there is room for one more."""
        for old in sorted(self._folder.glob(f"*{SUFFIX}"))[: -(KEPT - 1)]:
            with contextlib.suppress(OSError):
                old.unlink()

    def _free_path(self, stamp: str) -> Path:
        number = 0
        while (path := self._folder / f"{stamp}-{number:02}{SUFFIX}").exists():
            number += 1
        return path
