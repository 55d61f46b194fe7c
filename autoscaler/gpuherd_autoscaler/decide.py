"""The decision: a pure function of snapshot, memory and limits."""

from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.pools import Limits
from gpuherd_autoscaler.snapshot import Snapshot


def decide(snapshot: Snapshot, memory: Memory, limits: Limits, now: float) -> tuple[Plan, Memory]:
    """Return what to ask of the nodes and what to remember for the next decision."""
    raise NotImplementedError
