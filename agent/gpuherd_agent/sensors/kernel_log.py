"""Reads the kernel log without waiting: /dev/kmsg, or a text file. A bounded part at each look.

Where reading stopped is remembered with the boot, so that an old event is never told as new.
"""

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd_agent.readings import KernelEvent, KernelReading
from gpuherd_agent.sensors.kernel_lines import parse_line, parse_record

RECORD_MAX: Final = 8_192
LINES_PER_LOOK: Final = 2_000
"""About 20 ms of work. A storm of 100,000 lines is read over some looks, or the kernel drops it."""
SAME_PER_LOOK: Final = 3
"""Events that are alike beyond this many a look are counted and not told: storms repeat themselves."""
_FILE_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where reading stopped: a sequence number of /dev/kmsg, or a byte of a file, within one boot.

    A negative position = nothing was read in this boot.
    """

    boot_id: str = ""
    position: int = -1


class KernelLog:
    """One source of kernel lines. Make it with where an earlier run stopped."""

    def __init__(self, path: Path, boot_id: str, cursor: Cursor | None = None) -> None:
        """Without a cursor of this boot reading begins at the end: what came before is nobody's news."""
        self._path = path
        self._fd: int | None = None
        self._is_device = False
        self._rest = b""
        same = cursor is not None and cursor.boot_id == boot_id
        self.cursor = cursor if same and cursor is not None else Cursor(boot_id=boot_id)

    @property
    def position(self) -> int:
        """Return where reading stopped; negative = nothing was read in this boot."""
        return self.cursor.position

    def read(self, now: float) -> KernelReading:
        """Return what came since the last look; a log that cannot be read says why instead. Never waits."""
        missed = 0
        counts: Counter[tuple[object, ...]] = Counter()
        events: list[KernelEvent] = []
        try:
            for text, lost in self._lines():
                missed += lost
                event = parse_line(text)
                if event is None:
                    continue
                alike = (event.kind, event.code, event.bus)
                counts[alike] += 1
                if counts[alike] <= SAME_PER_LOOK:
                    events.append(event)
                else:
                    missed += 1
        except OSError as error:
            self.close()
            return KernelReading(at=now, why_blind=f"{self._path}: {error.strerror}")
        return KernelReading(at=now, events=tuple(events), missed=missed)

    def close(self) -> None:
        """Close the log; the next look opens it again."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None

    def _lines(self) -> Iterator[tuple[str, int]]:
        """Yield new lines, each with how many were lost before it."""
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._is_device = stat.S_ISCHR(os.fstat(self._fd).st_mode)
            if self.cursor.position < 0:
                end = os.lseek(self._fd, 0, os.SEEK_END)
                if not self._is_device:
                    self.cursor = Cursor(boot_id=self.cursor.boot_id, position=end)
            elif not self._is_device:
                os.lseek(self._fd, self.cursor.position, os.SEEK_SET)
        return self._records(self._fd) if self._is_device else self._text(self._fd)

    def _records(self, fd: int) -> Iterator[tuple[str, int]]:
        for _ in range(LINES_PER_LOOK):
            try:
                raw = os.read(fd, RECORD_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten; the next read is the oldest that is left
                    yield "", 1
                    continue
                if error.errno == errno.EINVAL:  # longer than the buffer: skipped by the kernel
                    continue
                raise
            record = parse_record(raw)
            if record is None or record.sequence <= self.cursor.position:
                continue
            lost = record.sequence - self.cursor.position - 1 if self.cursor.position >= 0 else 0
            self.cursor = Cursor(boot_id=self.cursor.boot_id, position=record.sequence)
            yield record.text, lost

    def _text(self, fd: int) -> Iterator[tuple[str, int]]:
        """Yield whole lines of a growing file; one that shrank was begun anew."""
        if os.fstat(fd).st_size < self.cursor.position:
            os.lseek(fd, 0, os.SEEK_SET)
            self.cursor = Cursor(boot_id=self.cursor.boot_id, position=0)
        chunk = os.read(fd, _FILE_CHUNK)
        whole, newline, _ = chunk.rpartition(b"\n")
        used = len(whole) + len(newline)
        position = max(0, self.cursor.position) + used
        os.lseek(fd, position, os.SEEK_SET)
        self.cursor = Cursor(boot_id=self.cursor.boot_id, position=position)
        for line in whole.split(b"\n") if newline else ():
            yield line.decode("utf-8", "replace"), 0
