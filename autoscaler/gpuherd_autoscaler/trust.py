"""When an answer is suspect: it comes in time and contradicts what else is known. Pure.

What is suspect is worth no more than no answer: nothing is lowered by it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.ray import ClusterSight
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Sourced

FEWEST: Final = 3
"""With fewer witnesses a contradiction may be a matter of who spoke first."""
MISSING_RATIO: Final = 0.5
CLOCK_JUMP_S: Final = 30.0
"""NTP slews below this; a jump of more is a clock that was set."""
CLOCK_SETTLES_S: Final = 60.0


def of_cluster(
    cluster: Sourced[ClusterSight], nodes: Mapping[NodeName, NodeView], fresh_s: float
) -> Sourced[ClusterSight]:
    """Return the head's word, SUSPECT when most nodes that say they are in Ray are missing from it.

    A head that was restarted without its state tells of no nodes and of no demand, and quite in time.
    """
    if cluster.fresh is None:
        return cluster
    witnesses = [
        n
        for n in nodes.values()
        if n.phase is Phase.MEMBER and n.age_s is not None and n.age_s <= fresh_s and not n.wants_drain
    ]
    missing = sum(not n.is_in_ray for n in witnesses)
    if len(witnesses) < FEWEST or missing <= MISSING_RATIO * len(witnesses):
        return cluster
    why = (
        f"Ray's head does not list {missing} of {len(witnesses)} nodes whose agents say that they are in Ray"
    )
    return replace(cluster, freshness=Freshness.SUSPECT, error=why)


def of_clock(offset_s: float, before_s: float | None, jumped_at: float | None, now: float) -> float | None:
    """Return when the wall clock last jumped, None = not within CLOCK_SETTLES_S.

    ``offset_s`` is wall minus monotonic time now, ``before_s`` that of the look before.
    """
    if before_s is not None and abs(offset_s - before_s) > CLOCK_JUMP_S:
        return now
    if jumped_at is not None and now - jumped_at >= CLOCK_SETTLES_S:
        return None
    return jumped_at
