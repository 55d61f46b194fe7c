"""Bodies of the autoscaler's REST API ``/api/v1``, shared by the server and by agentctl.

Instants are wall-clock seconds, durations end in ``_s``; None = not known.
"""

import enum
from typing import Final

import msgspec

from gpuherd.health import Action, Finding, Severity
from gpuherd.holds import Hold, OnDeadline
from gpuherd.names import GpuUuid, NodeName, OperationId, PoolName
from gpuherd.phases import Lifecycle, Phase

NAME_MAX: Final = 128
"""Longest name of somebody, of a node in a path and of an Idempotency-Key."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all bodies."""


class Demand(Body, frozen=True, kw_only=True):
    """Pending requests of one shape."""

    resources: dict[str, float]
    count: int


class Node(Body, frozen=True, kw_only=True):
    """One expected node: GET /nodes/{name}."""

    name: NodeName
    pool: PoolName
    lifecycle: Lifecycle
    reason: str
    """Why it is in this lifecycle, or why it is left alone."""
    phase: Phase | None = None
    severity: Severity = Severity.UNKNOWN
    serve: bool = False
    gpus_declared: int = 0
    gpus_counted: int | None = None
    gpus_healthy: int = 0
    ray_status: str = ""
    ray_node_id: str | None = None
    holds: tuple[Hold, ...] = ()
    findings: tuple[Finding, ...] = ()
    wants_drain: str = ""
    obstacles: tuple[str, ...] = ()
    """Reason codes of what keeps the node out of Ray, or took it out; empty while nothing does."""
    blockers: tuple[str, ...] = ()
    """What keeps a draining node from being empty: tasks, actors, placement groups, objects."""
    latecomers: tuple[str, ...] = ()
    """Work that came to it although Ray had taken its drain."""
    state_age_s: float | None = None
    agent_online: bool | None = None
    idle_s: float | None = None
    versions: dict[str, str] = {}


class Nodes(Body, frozen=True, kw_only=True):
    """GET /nodes."""

    nodes: tuple[Node, ...]


class Gpu(Body, frozen=True, kw_only=True):
    """One GPU that a node has seen since its agent started; a lost one stays, with ``present`` false."""

    node: NodeName
    uuid: GpuUuid
    index: int | None
    model: str
    pci_bus_id: str
    present: bool
    healthy: bool
    severity: Severity
    action: Action
    reason: str


class Gpus(Body, frozen=True, kw_only=True):
    """GET /gpus and GET /nodes/{name}/gpus."""

    gpus: tuple[Gpu, ...]


class Wish(Body, frozen=True, kw_only=True):
    """Who wants something, why, and until when."""

    by: str
    since: float
    until: float
    reason: str = ""
    nodes: int | None = None
    """For a pool: its size."""


class Wishes(Body, frozen=True, kw_only=True):
    """All that people have set for the whole herd; the answer to pause, resume and scale.

    While ``pause`` stands, plans are shown and not carried out.
    """

    pause: Wish | None = None
    sizes: dict[PoolName, Wish] = {}


class Fleet(Body, frozen=True, kw_only=True):
    """GET /fleet: one screen of facts."""

    cluster: str
    mode: str
    term: int
    nodes: int
    by_lifecycle: dict[str, int]
    gpus_declared: int
    gpus_counted: int
    gpus_healthy: int
    gpus_serving: int
    demand: tuple[Demand, ...] = ()
    head_reachable: bool | None = None
    head_session: str = ""
    broker_connected: bool = False
    frozen: str = ""
    """Why the scaler takes nothing away at present; empty = it is not frozen."""
    wishes: Wishes = Wishes()
    """What people have set for the whole herd."""
    lead: str = ""
    """Why this scaler, though armed, does not act: another leads, or none can. Empty = it leads and acts."""
    decision: str = ""
    decided_at: float | None = None
    version: str = ""


class DrainRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /nodes/{name}:drain. Without ``for_s`` the default of a user's drain holds (1 h)."""

    by: str = ""
    reason: str = ""
    for_s: float | None = None
    on_deadline: OnDeadline = OnDeadline.WAIT
    dry_run: bool = False


class LeaveRequest(DrainRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /nodes/{name}:leave. Without ``for_s`` running work gets the time that it takes."""


class JoinRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /nodes/{name}:join: lift all that stands, the autoscaler's own holds included, and serve."""

    by: str = ""
    reason: str = ""


class UndrainRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /nodes/{name}:undrain. ``hold`` = lift this one; empty = all that the caller may lift."""

    by: str = ""
    hold: str = ""


class CommandRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /nodes/{name}/commands: something that the node's agent does once.

    Without ``timeout_s`` the end is waited for two minutes.
    """

    verb: str
    arguments: dict[str, str] = {}
    by: str = ""
    reason: str = ""
    timeout_s: float | None = None


class OperationState(enum.StrEnum):
    """Life of an operation; all but OPEN are final."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Step(Body, frozen=True, kw_only=True):
    """Something that was observed while an operation ran."""

    at: float
    text: str


class Operation(Body, frozen=True, kw_only=True):
    """GET /operations/{id}: a durable intent and what became of it."""

    id: OperationId
    kind: str
    node: NodeName
    by: str
    reason: str
    state: OperationState
    created_at: float
    closed_at: float | None = None
    result: str = ""
    output: str = ""
    """What a command brought, such as a path on the node."""
    steps: tuple[Step, ...] = ()


class Operations(Body, frozen=True, kw_only=True):
    """GET /operations."""

    operations: tuple[Operation, ...]


class DrainPreview(Body, frozen=True, kw_only=True):
    """Answer to a dry run: what a drain would do now."""

    node: Node
    ray_activity: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()


class Event(Body, frozen=True, kw_only=True):
    """One line of GET /events (server-sent events; ``id`` is its Last-Event-ID)."""

    id: int
    at: float
    kind: str
    reason: str
    node: NodeName | None = None
    operation: OperationId | None = None


class ModeRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /scaler:mode. ``enforce`` acts on plans, ``recommend`` only shows them."""

    mode: str
    by: str = ""


class PauseRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /scaler:pause: carry out no plan for ``for_s`` (unset = 1 h, at most 7 days)."""

    by: str = ""
    reason: str = ""
    for_s: float | None = None


class ResumeRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /scaler:resume: end the pause."""

    by: str = ""


class ScaleRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /pools/{name}:scale: serve with exactly ``nodes`` for ``for_s`` (unset = 8 h, at most 7 days).

    Without ``nodes`` the pool follows demand again.
    """

    nodes: int | None = None
    by: str = ""
    reason: str = ""
    for_s: float | None = None


class PromoteRequest(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /scaler:promote: take the lead although another seems to have it."""

    by: str = ""


class Problem(Body, frozen=True, kw_only=True):
    """RFC 9457 problem: what happened, and in ``hint`` what to do next."""

    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    type: str = "about:blank"
