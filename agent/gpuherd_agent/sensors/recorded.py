"""Reads recordings, line by line and bounded; what is cut off or damaged ends it with a word why."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from gpuherd.health import Verdict
from gpuherd_agent.recording import (
    LINE_MAX_BYTES,
    LOOKS_MAX,
    End,
    Header,
    Look,
    RecordingInvalid,
    SameAgain,
    decode,
)
from gpuherd_agent.rules.rule import Rule
from gpuherd_agent.verdict import Judge

_MAGIC: Final = b"\x1f\x8b"


def is_recording(path: Path) -> bool:
    """Say whether a file is packed as recordings are; raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


@dataclass(slots=True)
class Recorded:
    """A recording that is read: ``header`` at once, the looks by iterating once, then ``ended``."""

    path: Path
    header: Header
    ended: str = ""
    """Why it ended; set once all looks were read."""
    skipped: int = 0
    _lines: Iterator[bytes] = field(default_factory=lambda: iter(()))

    @classmethod
    def open(cls, path: Path) -> "Recorded":
        """Read the header; raises RecordingInvalid, and OSError for a file that cannot be read."""
        lines = _lines(path)
        try:
            header = decode(next(lines, b""), 1)
        except RecordingInvalid as error:
            raise RecordingInvalid(f"{path}: {error}") from error
        if not isinstance(header, Header):
            raise RecordingInvalid(f"{path}: has no header")
        return cls(path, header, _lines=lines)

    def looks(self) -> Iterator[Look]:
        """Yield every look; readings that were told again keep their identity. Raises RecordingInvalid."""
        same = SameAgain()
        self.ended = "cut off: the agent ended without a word"
        for number, raw in enumerate(self._lines, start=2):
            try:
                line = decode(raw, number)
            except RecordingInvalid as error:
                raise RecordingInvalid(f"{self.path}: {error}") from error
            if isinstance(line, End):
                self.ended, self.skipped = line.why, line.skipped
                return
            if isinstance(line, Look):
                snapshot = same.restore(line.snapshot)
                yield Look(
                    wall=line.wall,
                    snapshot=snapshot,
                    severity=line.severity,
                    action=line.action,
                    rules=line.rules,
                )


def _lines(path: Path) -> Iterator[bytes]:
    """Yield whole lines; the part of a line at which the file was cut off is left out."""
    with path.open("rb") as file, gzip.GzipFile(fileobj=file) as packed:
        for _ in range(LOOKS_MAX + 2):
            line = _line(packed)
            if not line.endswith(b"\n"):
                if len(line) > LINE_MAX_BYTES:
                    yield line
                return
            yield line


def _line(packed: "gzip.GzipFile | BinaryIO") -> bytes:
    try:
        return packed.readline(LINE_MAX_BYTES + 2)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b""


def verdicts(recorded: Recorded, rules: Sequence[Rule]) -> Iterator[tuple[Look, float, Verdict]]:
    """Yield each look, its second, and what these rules make of it; raises RecordingInvalid.

    The rules know nothing of what was before the recording.
    """
    judge = Judge(rules)
    for look in recorded.looks():
        yield look, look.snapshot.at - recorded.header.at, judge.step(look.snapshot)
