"""A driver that answers slowly or loses looks: storms of corrected errors stall it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import Snapshot

SLOW: Final = "driver_slow"
_LOOKS_LEAST: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.driver_pace]``."""

    slow_ratio: float = 0.2
    """Share of the looks of 10 minutes that took above a second or had no answer. The fault that was seen
    lost 18 to 82 % an hour (DCGM #313); single slow calls are normal (dcgm-exporter #227)."""


def judge(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when too many looks at the GPUs were slow."""
    looks = snapshot.slow_looks
    if looks.looks < _LOOKS_LEAST or looks.slow / looks.looks <= limits.slow_ratio:
        return
    yield Finding(
        rule=SLOW,
        severity=Severity.DEGRADED,
        action=Action.CORDON,
        repair=Repair.INSPECT,
        reason=f"{looks.slow} of {looks.looks} looks at the GPUs in 10 minutes took above a second or failed",
        evidence={"slow": looks.slow, "looks": looks.looks},
    )
