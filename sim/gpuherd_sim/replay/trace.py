"""A job trace: when each job came, how many GPUs it asked for, how long it ran. Reads CSV."""

import csv
import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd.errors import HerdError

COLUMNS: Final = ("timestamp", "num_gpus", "duration")
MAX_JOBS: Final = 1_000_000
MAX_GPUS: Final = 65_536


class TraceInvalid(HerdError):
    """The file is no trace; the text names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. ``submitted_at`` counts seconds from the first job of the trace."""

    number: int
    submitted_at: float
    gpus: int
    duration_s: float


def read(path: Path) -> tuple[Job, ...]:
    """Return the jobs of a CSV file in order of submission.

    Columns: ``timestamp`` (seconds, or ISO 8601), ``num_gpus``, ``duration`` (seconds); others are ignored.
    Jobs without a GPU or with no duration are left out. Raises TraceInvalid with the line and what to mend.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return numbered(_rows(csv.DictReader(file), path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceInvalid(f"{path}: cannot be read: {error}") from error


def numbered(rows: Iterable[tuple[float, int, float]]) -> tuple[Job, ...]:
    """Return (instant, GPUs, seconds) rows as jobs: sorted, numbered, their clock starting at 0."""
    ordered = sorted(rows)
    start = ordered[0][0] if ordered else 0.0
    return tuple(
        Job(number=i, submitted_at=at - start, gpus=gpus, duration_s=duration)
        for i, (at, gpus, duration) in enumerate(ordered)
    )


def cut(jobs: Sequence[Job], *, most: int) -> tuple[Job, ...]:
    """Return the first ``most`` jobs."""
    return tuple(jobs[:most])


def _rows(reader: "csv.DictReader[str]", path: Path) -> Iterator[tuple[float, int, float]]:
    lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if lacking:
        raise TraceInvalid(
            f"{path}: line 1 names no column {', '.join(lacking)}; wanted: {', '.join(COLUMNS)}"
        )
    for number, row in enumerate(reader, start=2):
        if number > MAX_JOBS + 1:
            raise TraceInvalid(f"{path}: more than {MAX_JOBS} jobs; cut the file")
        try:
            at, gpus, duration = _instant(row["timestamp"]), int(row["num_gpus"]), float(row["duration"])
        except (TypeError, ValueError) as error:
            raise TraceInvalid(f"{path}: line {number}: {error}") from error
        if not (math.isfinite(at) and math.isfinite(duration)) or gpus > MAX_GPUS:
            raise TraceInvalid(f"{path}: line {number}: a value is out of range")
        if gpus > 0 and duration > 0:
            yield at, gpus, duration


def _instant(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        given = dt.datetime.fromisoformat(text)
        return (given if given.tzinfo else given.replace(tzinfo=dt.UTC)).timestamp()
