"""One node's part in the gossip: every input goes in here, every output comes out.

No clock, no socket, no chance of its own: equal inputs give equal outputs.
"""

import random
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.counters import Counters
from gpuherd.gossip.identity import Identity, Signer, Verifier
from gpuherd.gossip.inputs import Input, Publish, SetRoster
from gpuherd.gossip.outputs import Output
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd.gossip.views import FleetView, MemberView
from gpuherd.names import ClusterName, NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Self:
    """Who this node is. ``epoch`` = max(wall ms, stored epoch + 1), which the shell works out at start."""

    cluster: ClusterName
    identity: Identity
    epoch: int
    advertised: Address
    is_observer: bool = False


class Gossip:
    """The state of one member. Not thread-safe; the shell feeds it from one loop."""

    def __init__(self, own: Self, signer: Signer, verifier: Verifier, rng: random.Random) -> None:
        self.own = own
        self.counters = Counters()
        self._signer = signer
        self._verifier = verifier
        self._rng = rng
        self._body = Body()
        self._roster: dict[NodeName, str] = {}
        self._deadline = 0.0

    @property
    def deadline(self) -> float:
        """When ``handle`` wants a ``Tick``; changes with every input."""
        return self._deadline

    def handle(self, given: Input, now: float) -> tuple[Output, ...]:
        """Take one input and return what to do, in order. Never raises because of bytes from outside."""
        if isinstance(given, Publish):
            self._body = given.body
        elif isinstance(given, SetRoster):
            self._roster = dict(given.racks)
        self._deadline = now + limits.PERIOD_S
        return ()

    def view(self, now: float) -> FleetView:
        """Return the fleet as this node sees it now."""
        own = self.own
        mine = MemberView(
            name=own.identity.name,
            address=own.advertised,
            epoch=own.epoch,
            version=1,
            body=self._body,
            verdict=Verdict.ALIVE,
            since=now,
            voices=(),
            heard_at=now,
            is_expected=own.identity.name in self._roster,
            is_observer=own.is_observer,
            has_more=False,
        )
        expected = max(1, len(self._roster))
        return FleetView(
            own=own.identity.name,
            epoch=own.epoch,
            role=Role.OBSERVER if own.is_observer else Role.JOINING,
            expected=expected,
            quorum=limits.quorum(expected),
            sight=1,
            is_hint=expected <= limits.HINT_EXPECTED,
            health=0,
            members=(mine,),
            missing=tuple(sorted(set(self._roster) - {own.identity.name})),
        )
