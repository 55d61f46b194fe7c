"""Where the node stands now: what policy knows between two steps and may lose in a crash.

Durable knowledge is NodeMemory; this is rebuilt at start from it and from the world.
"""

from dataclasses import dataclass, field

from gpuherd.health import Finding, Verdict
from gpuherd.names import ClusterName, GpuUuid, NodeName, PoolName, RayNodeId
from gpuherd.phases import Phase
from gpuherd.ray import RayNode
from gpuherd_agent.acts import Act
from gpuherd_agent.memory import Board, NodeMemory
from gpuherd_agent.shrink import MIN_RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings that policy needs."""

    cluster: ClusterName
    node: NodeName
    pool: PoolName
    heads: tuple[str, ...]
    without_orders: str = "last"
    """``last`` = stay as you are, ``serve`` or ``stay_out``, while no document was ever accepted."""
    join_timeout_s: float = 60.0
    stop_grace_s: float = 60.0
    declared: int = 0
    shrink_min_ratio: float = MIN_RATIO
    """The node serves with its good GPUs alone while they are this share of the declared ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is so at this moment. ``now`` is monotonic, ``boot_s`` boot time, ``wall`` for people.

    ``fresh_id`` is a random id that a start or a hold of this step may take. ``verdict`` is what concerns
    the node with the GPUs that it offers.
    """

    now: float
    boot_s: float
    wall: float
    boot_id: str
    fresh_id: RayNodeId
    verdict: Verdict
    latched: tuple[Finding, ...] = ()
    """Findings that stand until a person ends them, as the verdict knows them."""
    kernel_position: int | None = None
    boards: tuple[Board, ...] = ()
    present: tuple[GpuUuid, ...] = ()
    healthy: tuple[GpuUuid, ...] = ()
    raylet_alive: bool = False
    gpu_model: str = ""
    """The one model of the good GPUs as a value of a label; empty = not known, or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """Phase, the act under way, and when to try again.

    ``found`` is False until the host was searched for a raylet of ours. ``reason`` is the sentence that
    people see. ``suspicions`` counts looks in a row in which the head did not list us as alive.
    """

    phase: Phase = Phase.OUTSIDE
    since: float = 0.0
    reason: str = "just started"
    under_way: Act | None = None
    not_before: float = 0.0
    failures: int = 0
    looked_at: float = float("-inf")
    sight: RayNode | None = None
    head_reachable: bool | None = None
    suspicions: int = 0
    wants_drain: str = ""
    overdue: bool = False
    head_turn: int = 0
    """How many times the next head of the list was taken because one did not answer."""
    rehearsed_at: float = float("-inf")
    """When the checks of a join were last begun without a join."""
    obstacles: tuple[str, ...] = ()
    """Reason codes of what keeps the node out, or took it out; empty while nothing does."""
    is_lost: bool = False
    """The raylet went without our doing."""
    growable_since: float | None = None
    """Since when the node could rejoin with more GPUs than it offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What policy made of the facts: save ``memory`` first, then carry ``act`` out, then tell ``news``."""

    station: Station
    memory: NodeMemory
    act: Act | None = None
    news: tuple[tuple[str, str], ...] = field(default=())
    """(kind, reason) of what happened, for the log and the event topic."""
