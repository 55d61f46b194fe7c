"""How a node is drained, by who wants it out and how strongly: the design's table as code. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuherd import holds
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import HoldId
from gpuherd.ray import DrainReason

HEALTH_DRAIN_S: Final = 3_600.0
EVICT_SOME_GOOD_S: Final = 900.0
EVICT_NONE_GOOD_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One drain: what Ray is told, when our patience ends, and whether a slot must be won first."""

    reason: DrainReason
    message: str
    deadline_s: float | None
    on_deadline: OnDeadline
    needs_slot: bool
    rank: int
    hold: HoldId | None = None
    """The hold that sets them; None = the scaler's wish, or our own."""


def terms(standing: Sequence[Hold], *, any_gpu_usable: bool) -> Terms:
    """Return how to drain for these holds, strongest first; none standing = the scaler's wish alone.

    A scale-down is Ray's to refuse, so it is never more than IDLE_TERMINATION. A drain that only
    health or repair asks for needs a slot; a user's word does not.
    """
    if all(h.owner == holds.SCALER for h in standing):
        return Terms(
            reason=DrainReason.IDLE_TERMINATION,
            message=f"gpuherd: {standing[0].reason if standing else 'not wanted any more'}",
            deadline_s=None,
            on_deadline=OnDeadline.WAIT,
            needs_slot=False,
            rank=0,
        )
    strongest = next(h for h in standing if h.owner != holds.SCALER)
    deadline_s, on_deadline = _patience(strongest, any_gpu_usable=any_gpu_usable)
    return Terms(
        reason=DrainReason.PREEMPTION,
        message=f"gpuherd: {strongest.reason} ({strongest.owner})",
        deadline_s=deadline_s,
        on_deadline=on_deadline,
        needs_slot=not any(holds.is_user(h.owner) for h in standing),
        rank=1 + strongest.kind.rank,
        hold=strongest.id,
    )


def grow_terms(*, waited_long: bool) -> Terms:
    """Return how a node leaves to rejoin with more GPUs: while idle, and after a long wait by a cordon."""
    return Terms(
        reason=DrainReason.PREEMPTION if waited_long else DrainReason.IDLE_TERMINATION,
        message="gpuherd: more GPUs are good again, to rejoin with them",
        deadline_s=None,
        on_deadline=OnDeadline.WAIT,
        needs_slot=waited_long,
        rank=0,
    )


def _patience(hold: Hold, *, any_gpu_usable: bool) -> tuple[float | None, OnDeadline]:
    if hold.owner != holds.HEALTH:
        return hold.for_s, hold.on_deadline
    if hold.kind is HoldKind.CORDON:
        return None, OnDeadline.WAIT
    if hold.kind is HoldKind.DRAIN:
        return HEALTH_DRAIN_S, OnDeadline.WAIT
    if any_gpu_usable:
        return EVICT_SOME_GOOD_S, OnDeadline.WAIT
    return EVICT_NONE_GOOD_S, OnDeadline.STOP
