"""Recorded decisions decided again with other settings: what would this setting have asked for?

Open loop: the recorded fleet does not follow the new answers, so each figure says what would have been asked
in the fleet as it was then. Good for limits, time-outs and spares; not for anything that needs time to act.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpuherd.errors import HerdError
from gpuherd.names import NodeName
from gpuherd_autoscaler import record
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.record import Decided

_GAP_S: Final = 300.0
"""Longer pauses between two decisions count as this: the scaler did not run in between."""
_SHOWN: Final = 20


class HistoryInvalid(HerdError):
    """The file is no record of decisions."""


@dataclass(slots=True)
class _Sum:
    """What one setting asked for, over the whole record."""

    node_s: float = 0.0
    starts: int = 0
    stops: int = 0
    refusals: dict[str, int] = field(default_factory=dict)

    def take(self, plan: Plan, lasted_s: float) -> None:
        self.node_s += lasted_s * sum(pool.wanted for pool in plan.pools)
        self.starts += len(plan.serve)
        self.stops += len(plan.release)
        for refusal in plan.refusals:
            self.refusals[refusal.rule] = self.refusals.get(refusal.rule, 0) + 1

    def told(self) -> dict[str, object]:
        return {
            "node_hours_wanted": round(self.node_s / 3_600, 3),
            "starts": self.starts,
            "stops": self.stops,
            "refusals": dict(sorted(self.refusals.items())),
        }


def compare(path: Path, limits: Limits) -> dict[str, object]:
    """Return what was asked then and what ``limits`` would have asked, with the first differences.

    Raises HistoryInvalid with the line for a file that is no record of decisions.
    """
    then, now = _Sum(), _Sum()
    differences: list[dict[str, object]] = []
    memory = Memory()
    count, last_at = 0, None
    for decided in _read(path):
        given = decided.inputs
        lasted_s = 0.0 if last_at is None else min(_GAP_S, max(0.0, given.now - last_at))
        last_at, count = given.now, count + 1
        plan, memory = decide(given.snapshot, memory, limits, given.now)
        then.take(decided.plan, lasted_s)
        now.take(plan, lasted_s)
        if len(differences) < _SHOWN and _asks(plan) != _asks(decided.plan):
            differences.append(_difference(count, decided.plan, plan))
    return {"decisions": count, "recorded": then.told(), "replayed": now.told(), "differences": differences}


def _read(path: Path) -> Iterator[Decided]:
    try:
        yield from record.read(path)
    except (OSError, ValueError) as error:
        raise HistoryInvalid(f"{path}: {error}") from error


def _asks(plan: Plan) -> tuple[tuple[NodeName, ...], tuple[NodeName, ...]]:
    return tuple(sorted(plan.serve)), tuple(sorted(plan.release))


def _difference(number: int, then: Plan, now: Plan) -> dict[str, object]:
    names = sorted({*then.serve, *then.release, *now.serve, *now.release})
    return {"decision": number, "nodes": {name: [_word(then, name), _word(now, name)] for name in names}}


def _word(plan: Plan, name: NodeName) -> str:
    """Return what a plan does with the node and why."""
    if name in plan.serve:
        return f"serve: {plan.reasons.get(name, '')}"
    if name in plan.release:
        return f"release: {plan.reasons.get(name, '')}"
    return f"kept: {plan.kept.get(name, '')}"
