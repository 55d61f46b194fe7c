"""Fleets as one node sees them by gossip."""

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd.gossip.views import FleetView, MemberView
from gpuherd.names import NodeName


def member(
    number: int, body: Body, verdict: Verdict = Verdict.ALIVE, *, is_expected: bool = True
) -> MemberView:
    """Return one member."""
    return MemberView(
        name=NodeName(f"n{number}"),
        address=Address("10.0.0.1", number + 1),
        epoch=1,
        version=1,
        body=body,
        verdict=verdict,
        since=5.0,
        voices=(),
        heard_at=8.0,
        is_expected=is_expected,
        is_observer=False,
        has_more=False,
    )


def fleet(*members: MemberView) -> FleetView:
    """Return the view of n0, of a fleet in which five are expected."""
    return FleetView(
        own=NodeName("n0"),
        epoch=1,
        role=Role.ACTIVE,
        expected=5,
        quorum=3,
        sight=5,
        is_hint=False,
        health=0,
        members=members,
        missing=(),
    )
