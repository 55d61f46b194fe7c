"""Sensing: reads, judges, keeps what is known of the node's health. The shell around rules and verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuherd.health import Finding, Verdict
from gpuherd.shell.clock import Clock
from gpuherd_agent.doors import ChecksDoor, KernelDoor, MountsDoor, PortsDoor, ProbeDoor
from gpuherd_agent.memory import Board
from gpuherd_agent.readings import KernelReading, ProbeOutcome, Snapshot
from gpuherd_agent.sensors.rounds import Rounds
from gpuherd_agent.sensors.sense import Sense
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.steward import Health
from gpuherd_agent.verdict import Judge
from gpuherd_agent.xid_tally import XidTally


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds from one look to the next; ``confirm_s`` while a finding waits for its confirmation."""

    period_s: float = 1.0
    confirm_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What an earlier run of the agent left: findings that stand until a person ends them, and the GPUs."""

    latched: tuple[Finding, ...] = ()
    boards: tuple[Board, ...] = ()


class Sensing:
    """Looks for ever; ``health`` is what the last look left."""

    def __init__(
        self,
        *,
        probe: ProbeDoor,
        senses: Sequence[Sense],
        clock: Clock,
        declared: int,
        pace: Pace,
        left: Left | None = None,
    ) -> None:
        left = left or Left()
        self._probe = probe
        self._clock = clock
        self._declared = declared
        self._pace = pace
        self._rounds = Rounds(senses, clock)
        self._sightings = Sightings(left.boards)
        self._judge = Judge(latched=left.latched)
        self._sampled_at: float | None = None
        self.checks: ChecksDoor | None = None
        """The site's checks, if it has any; who sets them lets them run."""
        self.kernel: KernelDoor | None = None
        self.ports: PortsDoor | None = None
        self.mounts: MountsDoor | None = None
        self.ray_gpus: Callable[[], int | None] = lambda: None
        """How many GPUs Ray was given here; None while the node is no member."""
        self.xids = XidTally()
        self._kernel_position: int | None = None
        self.looked_at = clock.now()
        self.ticks_total = 0
        self.late_total = 0
        self.health = Health(
            snapshot=Snapshot(at=clock.now(), declared=declared), verdict=Verdict(), latched=left.latched
        )

    async def run(self, looked: Callable[[], None]) -> None:
        """Look until cancelled, and call ``looked`` after each look.

        A slow look is skipped over, never doubled: the next one starts a whole period after the present.
        """
        due = self._clock.now()
        while True:
            await self._look()
            looked()
            due += self._pace.confirm_s if self._judge.pending else self._pace.period_s
            now = self._clock.now()
            if now > due:
                self.late_total += 1
                due = now
            await self._clock.sleep_until(due)

    async def _look(self) -> None:
        self._rounds.begin()
        probe = await self._probe.read()
        around = self._around(await self._rounds.gather())
        now = self._clock.now()
        snapshot = replace(self._sightings.take(probe=probe, declared=self._declared, now=now), **around)
        self.xids.take(snapshot, self._clock.wall())
        if probe.outcome is ProbeOutcome.OK:
            self._sampled_at = now
        self.ticks_total += 1
        self.looked_at = now
        self.health = Health(
            snapshot=snapshot,
            verdict=self._judge.step(snapshot),
            latched=self._judge.latched,
            kernel_position=self._kernel_position,
        )

    def _around(self, read: Mapping[str, object | None]) -> dict[str, Any]:
        """Return what works with the driver dead, by its field of the snapshot."""
        kernel = read.get("kernel")
        # Kept when something was told: then it is not told again after a restart.
        has_told = isinstance(kernel, KernelReading) and bool(kernel.events)
        if self.kernel is not None and (has_told or self._kernel_position is None):
            self._kernel_position = self.kernel.position
        return {
            **read,
            "ray_gpus": self.ray_gpus(),
            "checks": self.checks.readings if self.checks is not None else (),
            **({"ports": self.ports.reading} if self.ports is not None else {}),
            **({"mounts": self.mounts.reading} if self.mounts is not None else {}),
            "sensors": self._rounds.states,
        }

    def acknowledge(self, finding: Finding) -> None:
        """End a latched finding by a person's word; the verdict follows at the next look."""
        self._judge.acknowledge(finding.rule, finding.gpu)
        self.health = replace(self.health, latched=self._judge.latched)

    def sample_age_s(self) -> float | None:
        """Return how old the last good reading of the GPUs is, None before the first."""
        return None if self._sampled_at is None else self._clock.now() - self._sampled_at
