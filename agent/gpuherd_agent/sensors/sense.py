"""One sensor beside the driver, as the rounds need it: its name, its pace, its patience and its look."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sense:
    """A look that fills the field ``name`` of the snapshot.

    ``look`` takes monotonic seconds and returns a reading, a new object each time. It raises OSError when
    there is none: not found = this host has no such thing, no permission = the agent may not.
    """

    name: str
    look: Callable[[float], object]
    period_s: float
    """0 = at each tick."""
    deadline_s: float = 5.0
    """How long a look may take before its sensor counts as late. It cannot be ended: it is left alone."""
    is_quick: bool = False
    """It never waits, so it is done within the tick; every other one has a thread of its own."""
