"""What a rule is: one hazard, its limits, and how its findings are raised and cleared."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuherd.health import Finding
from gpuherd_agent.readings import ProbeOutcome, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One hazard.

    A finding stands once ``raise_n`` of the last ``raise_m`` looks had it. It ends after ``clear_k`` looks
    without it in a row that span ``clear_hold_s``, or, when ``latched``, only by a person. ``enforce`` False
    = it is told and leads to no act. ``reads_gpus`` = a look without GPU readings says nothing about it.
    """

    name: str
    limits: Any
    """An instance of the rule's own Limits."""
    judge: Callable[[Snapshot, Any], Iterator[Finding]]
    raise_n: int = 1
    raise_m: int = 1
    clear_k: int = 3
    clear_hold_s: float = 0.0
    latched: bool = False
    enforce: bool = False
    reads_gpus: bool = True
    runbook: str
    """Page under docs/runbook."""
    source: str

    def is_informed(self, snapshot: Snapshot) -> bool:
        """Say whether this look can confirm or clear the rule's findings."""
        probe = snapshot.probe
        if probe is None or probe.outcome is ProbeOutcome.STARTING:
            return False
        return probe.outcome is ProbeOutcome.OK or not self.reads_gpus
