"""InfiniBand and RoCE ports: down, slower than before, falling again and again, not to be asked. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.surroundings import PortWatch

DOWN: Final = "port_down"
SLOW: Final = "port_slow"
FLAPS: Final = "port_flaps"
BLIND: Final = "ports_silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.ports]``."""

    downs: int = 3
    """Times within ten minutes that a link may not go down. A cable that is plugged makes one."""


def judge_down(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while ports that are to be up are down or not there."""
    del limits
    ports = snapshot.ports
    if ports is None:
        return
    down = [f"{w.port.name} ({w.port.state})" for w in ports.ports if w.is_wanted and not w.port.is_active]
    gone = [f"{name} (not there)" for name in ports.missing]
    if down or gone:
        yield _finding(DOWN, Severity.DEGRADED, Action.CORDON, "network ports are down", [*down, *gone])


def judge_slow(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while ports are up at a lower rate than they have had."""
    del limits
    slow = [
        f"{w.port.name} ({w.port.gbps:g} of {w.best_gbps:g} Gb/s)"
        for w in _ports(snapshot)
        if w.port.is_active
        and w.port.gbps is not None
        and w.best_gbps is not None
        and w.port.gbps < w.best_gbps
    ]
    if slow:
        yield _finding(SLOW, Severity.DEGRADED, Action.CORDON, "network ports run below their rate", slow)


def judge_flaps(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while links go down again and again."""
    falling = [
        f"{w.port.name} ({w.recent_downs} times)" for w in _ports(snapshot) if w.recent_downs >= limits.downs
    ]
    if falling:
        words = "network links went down within ten minutes"
        yield _finding(FLAPS, Severity.WARN, Action.WATCH, words, falling)


def judge_silent(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while the ports cannot be asked: an adapter's firmware that is gone does that."""
    del limits
    why = snapshot.ports.why_blind if snapshot.ports else ""
    if why:
        yield _finding(BLIND, Severity.WARN, Action.WATCH, "the network ports cannot be asked", [why])


def _ports(snapshot: Snapshot) -> tuple[PortWatch, ...]:
    return snapshot.ports.ports if snapshot.ports else ()


def _finding(rule: str, severity: Severity, action: Action, words: str, which: list[str]) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        action=action,
        repair=Repair.INSPECT,
        reason=f"{words}: {', '.join(which[:8])}",
        evidence={"ports": len(which)},
    )
