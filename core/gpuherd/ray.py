"""Ray's cluster as its head (the GCS) tells it: plain values, no client.

Field meanings: Ray's AutoscalerStateService, equal in 2.30 to 2.60.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName, RayNodeId


class RayStatus(enum.StrEnum):
    """A node's state in the GCS; numbers on Ray's wire are 0 to 4 in this order."""

    UNSPECIFIED = "unspecified"
    RUNNING = "running"
    DEAD = "dead"
    IDLE = "idle"
    DRAINING = "draining"


class DrainReason(enum.StrEnum):
    """Why a node is drained. Ray may refuse the first and never refuses the second."""

    IDLE_TERMINATION = "idle_termination"
    PREEMPTION = "preemption"


class DrainOutcome(enum.StrEnum):
    """What is known after a drain was asked for."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """Ray says that the node is not idle; the node is untouched."""
    NO_SLOT = "no_slot"
    """The pool has its budget of nodes out; Ray was not asked."""
    UNKNOWN = "unknown"
    """No answer in time. A stopped raylet carries the drain out when it resumes: treat as accepted."""
    UNREACHABLE = "unreachable"
    """The head could not be reached at all, so nothing was asked."""
    NOT_ALIVE = "not_alive"
    """The head does not list that id as alive; Ray was not asked, as it accepts unknown ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAnswer:
    """Outcome of one drain request with Ray's or our own words for it."""

    outcome: DrainOutcome
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One node as the GCS lists it; dead ones stay listed for a while.

    ``name`` is our node name (Ray's ``instance_id``), None for a raylet that we did not start.
    ``activity`` is stale unless the status is RUNNING.
    """

    id: RayNodeId
    name: NodeName | None
    status: RayStatus
    total: Mapping[str, float] = field(default_factory=dict)
    available: Mapping[str, float] = field(default_factory=dict)
    idle_s: float = 0.0
    activity: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """Say whether the GCS counts the node as part of the cluster."""
        return self.status in (RayStatus.RUNNING, RayStatus.IDLE, RayStatus.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``count`` pending requests that ask for the same resources each."""

    resources: tuple[tuple[str, float], ...]
    """Sorted (resource, amount) pairs: hashable, so that equal shapes can be merged."""
    count: int = 1


class Strategy(enum.StrEnum):
    """How Ray lays a placement group out; only the strict ones forbid anything."""

    PACK = "PACK"
    SPREAD = "SPREAD"
    STRICT_PACK = "STRICT_PACK"
    """All bundles on one node."""
    STRICT_SPREAD = "STRICT_SPREAD"
    """Each bundle on a node of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Requests of one placement group: all of them are placed or none. ``details`` is Ray's own text."""

    shapes: tuple[Shape, ...]
    details: str = ""
    strategy: Strategy = Strategy.PACK

    @property
    def size(self) -> int:
        """Return the number of bundles."""
        return sum(shape.count for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSight:
    """One reading of the whole cluster. An empty ``pending`` is fresh evidence of no demand.

    ``requested`` is what a user asked the cluster to have room for (``request_resources()``), busy or not.
    """

    session: str
    nodes: tuple[RayNode, ...] = ()
    pending: tuple[Shape, ...] = ()
    gangs: tuple[Gang, ...] = ()
    requested: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadVersions:
    """What the head runs; Ray refuses a worker whose versions differ, with misleading words."""

    ray: str
    python: str
    session: str = ""
    is_open: bool | None = None
    """It also answers calls without a token. None = not asked, as we had no token to leave out."""
