"""The fleet as one agent sees it by gossip: the body of ``GET /v1/fleet``, and what a quorum of nodes says.

Pure. It needs neither the broker nor the autoscaler nor Ray, and leads to no act.
"""

from collections import Counter
from collections.abc import Sequence

from gpuherd.gossip.bodies import Reach
from gpuherd.gossip.verdicts import Verdict
from gpuherd.gossip.views import FleetView, MemberView
from gpuherd.names import NodeName
from gpuherd.rest import Body


class SeenNode(Body, frozen=True, kw_only=True):
    """One member. ``state`` is its own word on its health, ``verdict`` what the others make of it.

    ``since_s`` and ``heard_s`` are ages; ``heard_s`` None = it has never spoken to this node.
    """

    name: NodeName
    address: str
    verdict: str
    since_s: float
    accusers: tuple[str, ...] = ()
    state: str = ""
    reason_bits: int = 0
    phase: str = ""
    gpus_declared: int = 0
    gpus_present: int = 0
    head: str = ""
    broker: str = ""
    versions: str = ""
    drifts: bool = False
    """Its versions are not those of the majority."""
    in_maintenance: bool = False
    """It has announced planned work: being gone is no surprise."""
    is_expected: bool = False
    is_observer: bool = False
    heard_s: float | None = None


class SeenFleet(Body, frozen=True, kw_only=True):
    """The fleet seen from ``seen_by``; ``role`` says how far that can be trusted.

    ``is_hint`` = E is too small for more than a hint.
    ``broker_down`` and ``head_down`` = at least Q living expected nodes say that they have lost it.
    """

    seen_by: NodeName
    role: str
    expected: int
    quorum: int
    sight: int
    is_hint: bool
    broker_down: bool
    head_down: bool
    versions: str = ""
    nodes: tuple[SeenNode, ...] = ()
    missing: tuple[NodeName, ...] = ()


def seen(view: FleetView, now: float) -> SeenFleet:
    """Return ``view`` for people and programs; ``now`` is of the clock that the view is of."""
    majority = majority_versions(view)
    return SeenFleet(
        seen_by=view.own,
        role=view.role.value,
        expected=view.expected,
        quorum=view.quorum,
        sight=view.sight,
        is_hint=view.is_hint,
        broker_down=is_down(view, of_broker(view)),
        head_down=is_down(view, of_head(view)),
        versions=majority.hex(),
        nodes=tuple(_node(member, majority, now) for member in view.members),
        missing=view.missing,
    )


def of_broker(view: FleetView) -> Sequence[Reach]:
    """Return what the living expected nodes say of the broker."""
    return [member.body.broker for member in _living(view)]


def of_head(view: FleetView) -> Sequence[Reach]:
    """Return what the living expected nodes say of Ray's head."""
    return [member.body.head for member in _living(view)]


def is_down(view: FleetView, said: Sequence[Reach]) -> bool:
    """Return whether Q nodes have lost it and fewer still reach it: one node's own path is no outage."""
    lost = sum(reach is Reach.LOST for reach in said)
    return lost >= view.quorum and lost > sum(reach is Reach.REACHED for reach in said)


def majority_versions(view: FleetView) -> bytes:
    """Return the versions that more than half of the living expected nodes run; empty = there are none."""
    known = Counter(member.body.versions_hash for member in _living(view) if member.body.versions_hash)
    most, count = known.most_common(1)[0] if known else (b"", 0)
    return most if 2 * count > known.total() else b""


def _living(view: FleetView) -> Sequence[MemberView]:
    return [m for m in view.members if m.is_expected and m.verdict in (Verdict.ALIVE, Verdict.STALLED)]


def _node(member: MemberView, majority: bytes, now: float) -> SeenNode:
    body = member.body
    return SeenNode(
        name=member.name,
        address=str(member.address),
        verdict=member.verdict.value,
        since_s=round(max(0.0, now - member.since), 1),
        accusers=tuple(f"{voice.accuser or '?'}: {voice.kind.name.lower()}" for voice in member.voices),
        state=body.state.name.lower(),
        reason_bits=body.reason_bits,
        phase=body.phase.value,
        gpus_declared=body.gpus_declared,
        gpus_present=body.gpus_present,
        head=body.head.name.lower(),
        broker=body.broker.name.lower(),
        versions=body.versions_hash.hex(),
        drifts=bool(majority and body.versions_hash and body.versions_hash != majority),
        in_maintenance=body.in_maintenance,
        is_expected=member.is_expected,
        is_observer=member.is_observer,
        heard_s=None if member.heard_at is None else round(max(0.0, now - member.heard_at), 1),
    )
