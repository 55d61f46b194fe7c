"""Levels into edges: what is worth a log line is that something began or ended, not that it goes on.

An outage of any length yields two edges. Nothing here logs or reads a clock.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fell:
    """It was well, or was never tried, and is not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rose:
    """It is well again after ``lasted_s`` seconds, in which ``tries`` looks found it ill."""

    lasted_s: float
    tries: int


@dataclass(slots=True)
class Edge:
    """The last known level of one thing. A new one counts as well, so that a good start is silent."""

    _ill_since: float | None = None
    _tries: int = 0

    @property
    def is_well(self) -> bool:
        """Say whether the last look found it well."""
        return self._ill_since is None

    def step(self, *, ok: bool, now: float) -> Fell | Rose | None:
        """Take one look at ``now`` (monotonic seconds) and return the edge it makes, if any."""
        if not ok:
            self._tries += 1
            if self._ill_since is not None:
                return None
            self._ill_since = now
            return Fell()
        if self._ill_since is None:
            return None
        rose = Rose(lasted_s=now - self._ill_since, tries=self._tries)
        self._ill_since, self._tries = None, 0
        return rose
