"""The gossip as a source of decisions: what counts of a view, and what it is worth. Pure."""

from typing import Final

from gpuherd.gossip.views import FleetView
from gpuherd_autoscaler.snapshot import Freshness, GossipSight, Sourced

FRESH_S: Final = 30.0
"""As long as a state document counts as sight."""


def judged(view: FleetView, now: float) -> Sourced[GossipSight]:
    """Return the view as a source: FRESH while some member was heard within FRESH_S."""
    heard = [m.heard_at for m in view.members if m.heard_at is not None and m.name != view.own]
    if not heard:
        return Sourced(error="no member has been heard")
    sight = GossipSight(
        expected=view.expected,
        sight=view.sight,
        quorum=view.quorum,
        is_hint=view.is_hint,
        verdicts={m.name: m.verdict.value for m in view.members if m.is_expected},
        missing=view.missing,
    )
    is_fresh = now - max(heard) <= FRESH_S
    return Sourced(
        value=sight,
        freshness=Freshness.FRESH if is_fresh else Freshness.STALE,
        read_at=max(heard),
        error="" if is_fresh else f"no member was heard for {now - max(heard):.0f} s",
    )
