"""One immutable picture of all that a decision may look at, each source with its freshness.

Serialisable, so that a recorded picture can be decided upon again. Made by ``inventory`` and the sources.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from gpuherd.health import Action, Severity
from gpuherd.holds import Hold
from gpuherd.names import NodeName, PoolName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import ClusterSight, RayNode
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler.wishes import Wishes

T = TypeVar("T")


class Freshness(enum.StrEnum):
    """What a source's value is worth now. Only FRESH may lower anything."""

    FRESH = "fresh"
    STALE = "stale"
    """The last good value, too old to be the present."""
    SUSPECT = "suspect"
    """An answer in time that contradicts what else is known: see ``trust``."""
    FAILED = "failed"
    """The source does not answer; a value, if any, is the last good one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced(Generic[T]):
    """A value with the worth of its source. ``read_at`` (monotonic) tells two polls apart."""

    value: T | None = None
    freshness: Freshness = Freshness.FAILED
    read_at: float | None = None
    error: str = ""

    @property
    def fresh(self) -> T | None:
        """Return the value when it is of the present, else None."""
        return self.value if self.freshness is Freshness.FRESH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One expected node as the scaler sees it now. None = not known."""

    name: NodeName
    pool: PoolName
    lifecycle: Lifecycle
    reason: str = ""
    """Why it is in this lifecycle, for people."""
    serve: bool = False
    """Whether the scaler asks it to serve at present; before the first order, whether it serves."""
    known: bool = False
    """Whether it was ever heard of or ordered to serve: it counts among the nodes expected on."""
    phase: Phase | None = None
    age_s: float | None = None
    """Age of its newest state document; None = none was heard live in this run of ours."""
    online: bool | None = None
    severity: Severity = Severity.UNKNOWN
    action: Action = Action.NONE
    verdict: str = ""
    """Reason of its worst finding."""
    wants_drain: str = ""
    latecomers: tuple[str, ...] = ()
    """Work that came to it although Ray had taken its drain."""
    holds: tuple[Hold, ...] = ()
    gpus_declared: int = 0
    gpus_counted: int | None = None
    gpus_usable: int | None = None
    """GPUs present and healthy; None = no state document lists any."""
    witness: Witness = field(default_factory=Witness)
    ray_node_id: RayNodeId | None = None
    """The raylet that the node's own agent names."""
    ray: RayNode | None = None
    """The node in Ray's own list, matched by name; a live one before a dead one."""

    @property
    def is_in_ray(self) -> bool:
        """Say whether Ray's head lists it alive."""
        return self.ray is not None and self.ray.is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSight:
    """What the members make of each other, as an observer without a voice hears it.

    ``verdicts`` holds each expected member that is known, by name; ``sight`` of ``expected`` are those that
    the observer itself has reason to believe it reaches.
    """

    expected: int = 0
    sight: int = 0
    quorum: int = 1
    is_hint: bool = True
    verdicts: Mapping[NodeName, str] = field(default_factory=dict)
    missing: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a decision looks at. ``at`` is monotonic seconds."""

    at: float
    cluster: Sourced[ClusterSight] = field(default_factory=Sourced)
    gossip: Sourced[GossipSight] = field(default_factory=Sourced)
    """FAILED without a value where the autoscaler takes no part, and in snapshots from before it did."""
    triggers: Mapping[str, Sourced[int]] = field(default_factory=dict)
    """How many nodes each trigger asks for, by its name."""
    open_windows: Sourced[tuple[str, ...]] = field(default_factory=Sourced)
    """Names of the windows that are open by the wall clock."""
    wishes: Wishes = field(default_factory=Wishes)
    """What people have set for the whole herd, and is not over."""
    nodes: Mapping[NodeName, NodeView] = field(default_factory=dict)
    uninvited: tuple[NodeName, ...] = ()
    """Names that spoke and are in no pool: shown, never acted on."""


def encode(snapshot: Snapshot) -> bytes:
    """Return the snapshot as JSON; equal snapshots give equal bytes, whatever their order of nodes."""
    return msgspec.json.encode(snapshot, order="deterministic")


def decode(payload: bytes) -> Snapshot:
    """Return the snapshot in ``payload``; raises msgspec.ValidationError."""
    return msgspec.json.decode(payload, type=Snapshot)
