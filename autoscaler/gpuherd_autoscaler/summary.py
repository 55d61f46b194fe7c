"""A plan in one line, for the page of the fleet, the log and the broker."""

from collections.abc import Sequence
from typing import Final

from gpuherd.names import NodeName
from gpuherd_autoscaler.plan import Plan

_SHOWN: Final = 8


def summary(plan: Plan) -> str:
    """Return what the plan asks, what it was refused, and whether it is frozen."""
    parts = []
    if plan.serve:
        parts.append(f"serve {_names(plan.serve)}")
    if plan.release:
        parts.append(f"release {_names(plan.release)}")
    if not parts:
        parts.append("no change")
    parts += [f"{r.text}" for r in plan.refusals[:3]]
    if plan.frozen:
        parts.append(f"frozen: {plan.frozen}")
    return "; ".join(parts)


def _names(names: Sequence[NodeName]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
