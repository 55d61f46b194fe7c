"""The documents of the broker (design: protocol v1). Fields only; what they lead to is decided elsewhere.

What lasts is desired state (level-triggered, retained), what happens once is a command. Each document
that orders something has a ``signature``, which stays empty while the cluster is ``insecure``.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gpuherd.health import Action, Severity, Verdict
from gpuherd.holds import Hold
from gpuherd.names import ClusterName, GpuUuid, HoldId, NodeName, OperationId, PoolName, RayNodeId
from gpuherd.phases import Phase

VERSION: Final = 1

Counter = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1_000)]
Rack = Annotated[str, Meta(min_length=1, max_length=63)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Output = Annotated[str, Meta(max_length=8_000)]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all documents: whose it is and which version of the protocol it speaks."""

    v: int = VERSION
    cluster: ClusterName


class Online(Document, frozen=True, kw_only=True):
    """``node/<name>/online``, retained, by the node; also its last will with ``online`` false.

    Of two, the one with the lower (epoch, conn) is ignored: an old session's will may arrive late.
    ``host`` tells two machines with one name apart.
    """

    node: NodeName
    epoch: Counter
    conn: Counter
    online: bool
    host: Text = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The desired document that the node obeys now, and the phase it is in under it."""

    term: Counter
    generation: Counter
    digest: Text
    phase: Phase


class RefusedDesired(msgspec.Struct, frozen=True, kw_only=True):
    """The last desired document that the node refused, and why (a word of fence.Ruling, or garbage)."""

    why: Text
    term: Counter = 0
    generation: Counter = 0


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as the node knows it; a lost one stays listed with ``present`` false."""

    uuid: GpuUuid
    present: bool
    healthy: bool
    reason: Text = ""
    index: int | None = None
    """Where the driver lists it now; moves when another board goes. None = not listed."""
    model: Text = ""
    pci_bus_id: Text = ""
    severity: Severity = Severity.OK
    action: Action = Action.NONE


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of what the node runs; empty = not known."""

    agent: Text = ""
    ray: Text = ""
    python: Text = ""
    driver: Text = ""


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """What the node sees of work on itself: the second witness of scale-down. None = not known.

    ``ray_workers`` counts processes of the raylet's tree titled ``ray::`` other than ``ray::IDLE`` and
    Ray's two agents; ``foreign_gpu_processes`` are processes on a GPU that are none of the raylet's.
    """

    ray_workers: int | None = None
    foreign_gpu_processes: int | None = None


class State(Document, frozen=True, kw_only=True):
    """``node/<name>/state``, retained, by the node, never a will: all that others need of it.

    ``seq`` rises with each document of one epoch; ``sent_at`` is wall-clock seconds.
    """

    node: NodeName
    epoch: Counter
    seq: Counter
    sent_at: Seconds
    boot_id: Text = ""
    phase: Phase
    reason: Text = ""
    serve: bool = False
    verdict: Verdict = Verdict()
    holds: tuple[Hold, ...] = ()
    wants_drain: Text = ""
    """Why the node would drain if its pool had a slot left; empty = it does not want to."""
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=64)] = ()
    gpus_declared: Counter = 0
    gpus_counted: int | None = None
    versions: Versions = Versions()
    witness: Witness = Witness()
    blockers: Annotated[tuple[Text, ...], Meta(max_length=32)] = ()
    """What keeps a draining node from being empty; only told while it drains."""
    latecomers: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    """Work that came to the node although Ray had taken its drain; told until the raylet has gone."""
    obstacles: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    """Reason codes of what keeps the node out of Ray, or took it out."""
    ray_node_id: RayNodeId | None = None
    head_reachable: bool | None = None
    observed: Observed | None = None
    refused: RefusedDesired | None = None
    signature: Text = ""


class Desired(Document, frozen=True, kw_only=True):
    """``node/<name>/desired``, retained, by the scaler: what the node shall be.

    ``lifted`` ends holds by id; absence never does. ``gpus`` = serve with these only (None = all).
    """

    node: NodeName
    term: Counter
    generation: Counter
    serve: bool
    holds: Annotated[tuple[Hold, ...], Meta(max_length=64)] = ()
    lifted: Annotated[tuple[HoldId, ...], Meta(max_length=256)] = ()
    head: Annotated[tuple[Text, ...], Meta(max_length=8)] = ()
    pool: PoolName
    pool_size: Counter
    gpus: tuple[GpuUuid, ...] | None = None
    op_id: OperationId | None = None
    reason: Text = ""
    signature: Text = ""


class Event(Document, frozen=True, kw_only=True):
    """``node/<name>/event/<kind>``, not retained, by the node: something happened, told once."""

    node: NodeName
    epoch: Counter
    seq: Counter
    sent_at: Seconds
    kind: Text
    reason: Text = ""


class Command(Document, frozen=True, kw_only=True):
    """``node/<name>/command``, never retained: what happens once, begun within ``expires_s`` (at most 300).

    ``by`` is who asks and ``reason`` why; ``arguments`` are the verb's own.
    """

    node: NodeName
    id: OperationId
    verb: Text
    arguments: Annotated[dict[str, Text], Meta(max_length=16)] = {}
    by: Text = ""
    reason: Text = ""
    epoch: Counter
    issued_at: Seconds
    expires_s: Annotated[float, Meta(gt=0, le=300)]
    signature: Text = ""


class Ack(Document, frozen=True, kw_only=True):
    """``node/<name>/ack/<id>``: accepted -> running -> done | failed | refused | expired | duplicate.

    ``reason`` is one line for people, ``output`` what the verb brought, such as a path. A command whose
    end is known is answered by that end again; *duplicate* = it was taken before and its end is not known.
    """

    node: NodeName
    id: OperationId
    outcome: Text
    reason: Text = ""
    output: Output = ""


class Roster(Document, frozen=True, kw_only=True):
    """``roster``, retained, by the scaler: the names that count among the expected members."""

    term: Counter
    version: Counter
    names: Annotated[tuple[NodeName, ...], Meta(max_length=10_000)] = ()
    racks: Annotated[dict[NodeName, Rack], Meta(max_length=10_000)] = {}
    """Which of them stand where; a name without a rack stands alone."""
    signature: Text = ""


class ScalerState(Document, frozen=True, kw_only=True):
    """``scaler/state``, retained, by the scaler: who leads, in which mode, and its last decision."""

    leader: Text
    term: Counter
    mode: Text
    decision: Text = ""
    sent_at: Seconds = 0.0


class Mode(Document, frozen=True, kw_only=True):
    """``mode``, retained: ``observe`` stops all automatic acts of the whole fleet."""

    term: Counter
    mode: Text
    signature: Text = ""
