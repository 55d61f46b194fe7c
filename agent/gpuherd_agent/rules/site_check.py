"""Checks of the site: each that is not fine is a finding of its own. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Finding, Repair, Severity
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.site_result import Status

NAME: Final = "site_check"

_SEVERITY: Final = {
    Status.WARN: Severity.WARN,
    Status.CRITICAL: Severity.CRITICAL,
    Status.UNKNOWN: Severity.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.site_check]``: there are none, the check itself is the limit."""


def judge(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each check whose last word is not ok, named ``site_check:NAME``."""
    del limits
    for reading in snapshot.checks:
        severity = _SEVERITY.get(reading.status)
        if severity is not None:
            yield Finding(
                rule=f"{NAME}:{reading.name}",
                severity=severity,
                action=reading.action,
                repair=Repair.INSPECT,
                reason=f"check {reading.name}: {reading.reason}",
                gpu=reading.gpu,
                evidence={"took_s": round(reading.took_s, 3)},
            )
