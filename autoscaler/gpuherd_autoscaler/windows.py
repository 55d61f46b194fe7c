"""Windows of time that come again: a start by cron in a time zone, and how long it lasts. ``[[window]]``.

The times are those of Debian's cron: where clocks go forward a start that does not exist comes right after
the gap, and where they go back it comes once. The length is real time: it never changes with the clocks.
"""

import zoneinfo
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from cronsim import CronSim, CronSimError

from gpuherd.names import NameInvalid, parse_name

_LONGEST_S: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Keys under ``[[window]]``."""

    name: str
    """1 to 63 of ``a-z 0-9 -``; triggers and pools name it."""

    start: str
    """When it opens, as cron writes it: ``"0 20 * * MON-FRI"`` = at 20:00 from Monday to Friday."""

    duration_s: float
    """How long it stays open, at most a week. One that lasts past its next start simply stays open."""

    zone: str = "UTC"
    """IANA name such as ``"Europe/Berlin"``. UTC never moves; other zones follow the people's clocks."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, why) for everything that cannot be used."""
        try:
            parse_name(self.name, "window name")
        except NameInvalid as error:
            yield "name", str(error)
        if not 0 < self.duration_s <= _LONGEST_S:
            yield "duration_s", f"{self.duration_s:g} is outside 1 s to a week"
        try:
            zoneinfo.ZoneInfo(self.zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            yield "zone", f"{self.zone[:80]!r} is no time zone that this host knows, such as 'Europe/Berlin'"
            return
        try:
            next(CronSim(self.start, datetime.now(UTC)))
        except CronSimError as error:
            yield "start", f"{self.start[:80]!r} is no cron expression of five fields: {error}"
        except StopIteration:
            yield "start", f"{self.start[:80]!r} never comes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One time that a window is open, in its own zone."""

    window: str
    start: datetime
    end: datetime


def is_open(window: Window, wall: float) -> bool:
    """Say whether the window is open at ``wall``, seconds since 1970."""
    now = datetime.fromtimestamp(wall, zoneinfo.ZoneInfo(window.zone))
    # Cron knows whole minutes, and looking back leaves out the instant itself.
    after = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    last = next(CronSim(window.start, after, reverse=True), None)
    return last is not None and (wall - last.timestamp()) < window.duration_s


def open_at(windows: Sequence[Window], wall: float) -> tuple[str, ...]:
    """Return the names of the windows that are open at ``wall``, in order."""
    return tuple(sorted(window.name for window in windows if is_open(window, wall)))


def openings(window: Window, wall: float, count: int = 5) -> tuple[Opening, ...]:
    """Return the next ``count`` times that the window opens after ``wall``."""
    now = datetime.fromtimestamp(wall, zoneinfo.ZoneInfo(window.zone))
    return tuple(
        Opening(window=window.name, start=start, end=_later(start, window.duration_s))
        for start in islice(CronSim(window.start, now), count)
    )


def _later(start: datetime, seconds: float) -> datetime:
    """Return the instant so much real time later, in the same zone."""
    return (start.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(start.tzinfo)


def window_problems(
    windows: Sequence[Window], used: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield (key path, why) for names given twice, and for each (key, name) in ``used`` that is none."""
    first: dict[str, int] = {}
    for i, window in enumerate(windows):
        if window.name in first:
            yield f"window[{i}].name", f"{window.name!r} is the name of window[{first[window.name]}] too"
        first.setdefault(window.name, i)
    for key, name in used:
        if name not in first:
            known = ", ".join(sorted(first)) or "none is given"
            yield key, f"{name!r} is no [[window]]; known: {known}"
