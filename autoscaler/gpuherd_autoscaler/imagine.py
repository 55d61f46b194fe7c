"""What would be asked if more requests waited. Pure: nothing is remembered or done."""

from collections.abc import Sequence
from dataclasses import replace

from gpuherd.errors import Retryable
from gpuherd.ray import Shape
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import Snapshot

_POLLS = 2
"""Demand counts once it was there at two polls."""
_POLL_S = 5.0


def imagine(snapshot: Snapshot, memory: Memory, limits: Limits, more: Sequence[Shape]) -> Plan:
    """Return the plan for this picture with ``more`` waiting, once that has lasted.

    Raises Retryable while the head tells nothing of the present.
    """
    sight = snapshot.cluster.fresh
    if sight is None:
        raise Retryable("Ray's head tells nothing of the present, so no plan can be made")
    with_more = replace(sight, pending=(*sight.pending, *more))
    plan = Plan()
    for poll in range(1, _POLLS + 1):
        at = snapshot.at + poll * _POLL_S
        cluster = replace(snapshot.cluster, value=with_more, read_at=at)
        plan, memory = decide(replace(snapshot, at=at, cluster=cluster), memory, limits, at)
    return plan
