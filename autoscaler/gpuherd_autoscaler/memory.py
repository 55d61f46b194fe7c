"""What one decision leaves to the next: clocks and marks. Evolved by ``decide`` only, never in place.

Lost with the process, on purpose: a new process observes anew before it takes anything away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuherd.names import NodeName, PoolName

MINUTE_S: Final = 60.0

Resources = tuple[tuple[str, float], ...]
"""Key of a shape: its sorted (resource, amount) pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Pending counts of one reading of the head, as pairs since JSON keys are text."""

    read_at: float
    counts: tuple[tuple[Resources, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Instants are monotonic seconds. ``Memory()`` is that of a process that has seen nothing."""

    at: float | None = None
    """When the last decision was made."""
    idle_since: Mapping[NodeName, float] = field(default_factory=dict)
    """Since when each node was idle at every sample."""
    asked: frozenset[NodeName] = frozenset()
    """Nodes that were asked to serve at the last decision."""
    in_ray: frozenset[NodeName] = frozenset()
    """Nodes that Ray listed alive at the last decision."""
    waiting_since: Mapping[NodeName, float] = field(default_factory=dict)
    """Since when each node has been asked to serve while Ray does not list it."""
    turned_on_at: Mapping[PoolName, float] = field(default_factory=dict)
    """When a node of the pool was last turned on."""
    started_at: Mapping[NodeName, float] = field(default_factory=dict)
    """When nodes outside Ray were asked to serve, within the last minute."""
    last_poll: Poll | None = None
    poll_before: Poll | None = None
    bad: frozenset[NodeName] = frozenset()
    turned_bad_at: Mapping[NodeName, float] = field(default_factory=dict)
    """When nodes that were sound before turned bad, within the window of the guard."""
    session: str | None = None
    """Session of Ray's head at the last fresh reading; None = none was read yet."""
    settling_since: float | None = None
    frozen_why: str = ""
    sound_since: float | None = None
    """Since when the grounds for FROZEN have been absent, while it still stands."""
