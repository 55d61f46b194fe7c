"""Decisions written down as JSON lines, and decided again: the same inputs must give the same bytes.

A shell around ``decide``; the service writes when ``[scaler] record`` names a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuherd_autoscaler import plan as plans
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that one decision depended on; ``memory`` is the one before it."""

    snapshot: Snapshot
    memory: Memory
    limits: Limits
    now: float


class _Line(msgspec.Struct, kw_only=True):
    inputs: Inputs
    plan: msgspec.Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One recorded decision: what it depended on, and what came of it."""

    inputs: Inputs
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A recorded decision that turned out otherwise. ``line`` counts from 1."""

    line: int
    recorded: bytes
    replayed: bytes


def append(path: Path, inputs: Inputs, plan: Plan) -> None:
    """Add one decision to the file; raises OSError."""
    line = _Line(inputs=inputs, plan=msgspec.Raw(plans.encode(plan)))
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line, order="deterministic") + b"\n")


def read(path: Path) -> Iterator[Decided]:
    """Yield the recorded decisions in their order.

    Raises OSError, and ValueError that names the line for one that is no recorded decision, such as one that
    was cut off by a crash.
    """
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = msgspec.json.decode(text, type=_Line)
                yield Decided(inputs=line.inputs, plan=plans.decode(bytes(line.plan)))
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number} is no recorded decision: {error}") from error


def replay(path: Path) -> tuple[int, tuple[Difference, ...]]:
    """Return how many decisions the file holds, and those that turn out otherwise now.

    Raises OSError, and msgspec.DecodeError for a line that is no recorded decision, such as one that
    was cut off by a crash.
    """
    differences = []
    number = 0
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            line = msgspec.json.decode(text, type=_Line)
            given = line.inputs
            plan, _ = decide(given.snapshot, given.memory, given.limits, given.now)
            replayed, recorded = plans.encode(plan), bytes(line.plan)
            if replayed != recorded:
                differences.append(Difference(line=number, recorded=recorded, replayed=replayed))
    return number, tuple(differences)
