"""The fleet as one node sees it by gossip: frozen values for the agent, ``agentctl`` and the autoscaler."""

from dataclasses import dataclass

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.verdicts import Kind, Role, Verdict
from gpuherd.names import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """One current accusation. ``accuser`` is None while the accuser's name is not known."""

    accuser: NodeName | None
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member. ``since`` and ``heard_at`` are of our own monotonic clock.

    ``heard_at`` is None when no packet of its own has ever come. ``has_more`` = it would accuse more members
    than a record can hold.
    """

    name: NodeName
    address: Address
    epoch: int
    version: int
    body: Body
    verdict: Verdict
    since: float
    voices: tuple[Voice, ...]
    heard_at: float | None
    is_expected: bool
    is_observer: bool
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """All members by name, ourselves among them.

    ``expected`` is E and counts names that never spoke (``missing``); ``sight`` is how many of E, we counted,
    this node has reason to believe that it reaches; ``is_hint``: E is too small for more than a hint.
    """

    own: NodeName
    epoch: int
    role: Role
    expected: int
    quorum: int
    sight: int
    is_hint: bool
    health: int
    members: tuple[MemberView, ...]
    missing: tuple[NodeName, ...]
