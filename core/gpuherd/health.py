"""Health vocabulary: finding (a rule's judgement) and verdict (findings over time).

Unknown is not ok: it ranks above it, and below a warning.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuherd.names import GpuUuid
from gpuherd.ranked import Ranked


class Severity(Ranked):
    """How bad it is."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARN = "warn"
    DEGRADED = "degraded"
    CRITICAL = "critical"


class Action(Ranked):
    """What the node may do about it by itself."""

    NONE = "none"
    WATCH = "watch"
    CORDON = "cordon"
    DRAIN = "drain"
    EVICT = "evict"


class Repair(enum.StrEnum):
    """What is likely to mend it; a hint for people and for the repair ladder."""

    NONE = "none"
    APP = "app"
    RESET_GPU = "reset_gpu"
    BUS_RESET = "bus_reset"
    REBOOT = "reboot"
    INSPECT = "inspect"
    RMA = "rma"
    IMEX = "imex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule's judgement of the readings of one tick.

    ``gpu`` is None when the whole node is meant. ``evidence`` holds the readings that led to it, each
    with its unit in the key.
    """

    rule: str
    severity: Severity
    action: Action
    reason: str
    gpu: GpuUuid | None = None
    repair: Repair = Repair.NONE
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, GpuUuid | None]:
        """What makes two findings of different ticks the same trouble."""
        return self.rule, self.gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Standing findings, worst first, and the worst severity and action among them."""

    severity: Severity = Severity.UNKNOWN
    action: Action = Action.NONE
    findings: tuple[Finding, ...] = ()

    @property
    def reason(self) -> str:
        """Return the reason of the worst finding, or an empty string."""
        return self.findings[0].reason if self.findings else ""


def fold(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict that these findings make together: ok when there are none."""
    worst_first = sorted(findings, key=lambda f: (-f.action.rank, -f.severity.rank, f.rule, f.gpu or ""))
    if not worst_first:
        return Verdict(severity=Severity.OK)
    return Verdict(
        severity=max(f.severity for f in worst_first),
        action=max(f.action for f in worst_first),
        findings=tuple(worst_first),
    )
