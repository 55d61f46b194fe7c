"""Which windows are open by the wall clock, and whether that clock can be trusted now."""

from collections.abc import Sequence

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_autoscaler import trust
from gpuherd_autoscaler.snapshot import Freshness, Sourced
from gpuherd_autoscaler.windows import Window, open_at

log = logs.get("gpuherd.autoscaler")


class WindowWatch:
    """Look once a turn."""

    def __init__(self, windows: Sequence[Window], clock: Clock) -> None:
        self._windows = windows
        self._clock = clock
        self._offset_s: float | None = None
        self._jumped_at: float | None = None
        self._open: tuple[str, ...] = ()

    def look(self) -> Sourced[tuple[str, ...]]:
        """Return the names of the open windows.

        For a minute after the wall clock was set they are SUSPECT, and those open before count too.
        """
        now, wall = self._clock.now(), self._clock.wall()
        offset_s = wall - now
        before = self._jumped_at
        self._jumped_at = trust.of_clock(offset_s, self._offset_s, before, now)
        if self._jumped_at is not None and self._jumped_at != before and self._offset_s is not None:
            log.warning("clock.jumped", by_s=round(offset_s - self._offset_s, 1))
        self._offset_s = offset_s
        opened = open_at(self._windows, wall)
        if self._jumped_at is None:
            self._open = opened
            return Sourced(value=opened, freshness=Freshness.FRESH, read_at=now)
        both = tuple(sorted({*opened, *self._open}))
        error = f"the wall clock was set {now - self._jumped_at:.0f} s ago"
        return Sourced(value=both, freshness=Freshness.SUSPECT, read_at=now, error=error)
