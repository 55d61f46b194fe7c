"""Sensing: reads, judges, and keeps what is known of the node's health. The shell around rules and verdict."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpuherd.health import Finding, Verdict
from gpuherd.shell.clock import Clock
from gpuherd_agent.doors import HostDoor, ProbeDoor
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.steward import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds from one look to the next; ``confirm_s`` while a finding waits for its confirmation."""

    period_s: float = 1.0
    confirm_s: float = 0.25


class Sensing:
    """Looks for ever; ``health`` is what the last look left."""

    def __init__(
        self,
        *,
        probe: ProbeDoor,
        host: HostDoor,
        clock: Clock,
        declared: int,
        pace: Pace,
        latched: tuple[Finding, ...] = (),
    ) -> None:
        self._probe = probe
        self._host = host
        self._clock = clock
        self._declared = declared
        self._pace = pace
        self.ticks_total = 0
        self.late_total = 0
        self.health = Health(
            snapshot=Snapshot(at=clock.now(), declared=declared), verdict=Verdict(), latched=latched
        )
