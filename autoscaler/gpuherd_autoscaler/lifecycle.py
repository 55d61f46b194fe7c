"""Where a node stands in the fleet, from its own words, Ray's list and our order. Pure, without memory."""

from dataclasses import dataclass
from typing import Final

from gpuherd import holds
from gpuherd.health import Action
from gpuherd.holds import Hold
from gpuherd.names import PoolName
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import RayNode, RayStatus
from gpuherd.wire.documents import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """All that is known of one node at one instant."""

    pool: PoolName
    state: State | None
    is_fresh: bool
    age_s: float | None
    ray: RayNode | None
    head_is_fresh: bool
    order: bool | None

    @property
    def is_asked(self) -> bool:
        """Say whether we ask it to serve; before our first order, whether it serves by itself."""
        if self.order is not None:
            return self.order
        return (self.state is not None and self.state.serve) or (self.ray is not None and self.ray.is_alive)

    @property
    def is_in_ray(self) -> bool:
        """Say whether Ray lists it alive."""
        return self.ray is not None and self.ray.is_alive


_BY_PHASE: Final = {
    Phase.VERIFYING: (Lifecycle.BOOTING, "is being verified"),
    Phase.READY: (Lifecycle.BOOTING, "is verified and waits to join"),
    Phase.JOINING: (Lifecycle.JOINING, "starts its raylet"),
    Phase.DRAINING: (Lifecycle.DRAINING, "drains"),
    Phase.LEAVING: (Lifecycle.LEAVING, "stops its raylet"),
}


def place(sighting: Sighting) -> tuple[Lifecycle, str]:
    """Return the node's place in the fleet and why, for people."""
    state = sighting.state
    if state is None:
        if sighting.is_in_ray:
            return Lifecycle.UNREACHABLE, "Ray lists it, and its agent was never heard"
        return Lifecycle.MISSING, f"listed in pool {sighting.pool} and never heard of"
    if not sighting.is_fresh:
        return _silent(sighting)
    hold = foreign_hold(state.holds)
    if state.phase is Phase.OUTSIDE:
        return _outside(sighting, state, hold)
    if state.phase is Phase.MEMBER:
        return _member(sighting)
    lifecycle, text = _BY_PHASE[state.phase]
    return lifecycle, f"{text}: {hold.reason}" if hold else f"{text}{_because(state.reason)}"


def foreign_hold(standing: tuple[Hold, ...]) -> Hold | None:
    """Return the strongest hold that is not the scaler's own, or None."""
    of_others = [hold for hold in standing if hold.owner != holds.SCALER]
    return min(of_others, key=lambda h: (-h.kind.rank, h.since, h.id), default=None)


def _silent(sighting: Sighting) -> tuple[Lifecycle, str]:
    since = "since we started" if sighting.age_s is None else f"for {sighting.age_s:.0f} s"
    if sighting.is_in_ray:
        return Lifecycle.UNREACHABLE, f"its agent is silent {since}, and Ray lists it"
    if not sighting.head_is_fresh:
        return Lifecycle.UNREACHABLE, f"its agent is silent {since}, and Ray's head tells nothing"
    return Lifecycle.LOST, f"its agent is silent {since}, and Ray does not list it"


def _outside(sighting: Sighting, state: State, hold: Hold | None) -> tuple[Lifecycle, str]:
    if hold is not None and hold.owner == holds.REPAIR:
        return Lifecycle.REPAIRING, f"outside, held by repair: {hold.reason}"
    if hold is not None and hold.owner == holds.HEALTH:
        return Lifecycle.QUARANTINED, f"outside, held by health: {hold.reason}"
    if hold is not None:
        return Lifecycle.STANDBY, f"outside, held by {hold.owner}: {hold.reason}"
    if state.verdict.action >= Action.CORDON:
        return Lifecycle.QUARANTINED, f"outside, unfit: {state.verdict.reason}"
    if sighting.is_asked:
        return Lifecycle.BOOTING, f"asked to serve{_because(state.reason)}"
    return Lifecycle.STANDBY, "waits outside Ray"


def _member(sighting: Sighting) -> tuple[Lifecycle, str]:
    if sighting.ray is not None and sighting.ray.status is RayStatus.DRAINING:
        return Lifecycle.DRAINING, "drains, says Ray"
    if sighting.head_is_fresh and not sighting.is_in_ray:
        return Lifecycle.JOINING, "says it is a member, and Ray does not list it"
    return Lifecycle.SERVING, "serves"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
