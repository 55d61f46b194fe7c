"""The gate before each join: asks everything that a join is judged by, and hands out the report.

A shell: what passes is decided in ``admission`` and ``fitness``, what may be warm in ``warmth``.
"""

import asyncio
import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.errors import HeadUnreachable
from gpuherd.health import Verdict
from gpuherd.names import GpuUuid
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import HeadVersions
from gpuherd.shell.clock import Clock
from gpuherd_agent import fitness, warmth
from gpuherd_agent.admission import JoinFacts, preflight
from gpuherd_agent.doors import (
    HeadDoor,
    HooksDoor,
    JoinFailed,
    RayletDoor,
    Smoked,
    SmokeDoor,
    SmokeOutcome,
)
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.state_document import gpus

PRE_JOIN: Final = "pre-join"
_HEADS_KEPT: Final = 8


class Occasion(enum.Enum):
    """What a check is for."""

    JOIN = "join"
    """A start follows: what a rehearsal has found out lately is not asked again."""
    REHEARSAL = "rehearsal"
    """No start follows: the site's hook is not run."""
    REPORT = "report"
    """A person wants to know: everything is asked anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The node that wants to join with its ``good`` GPUs.

    ``verdict`` is what concerns it with them, ``of_gpus`` has each finding at its full weight.
    """

    snapshot: Snapshot
    good: tuple[GpuUuid, ...]
    verdict: Verdict
    of_gpus: Verdict
    memory: NodeMemory


class Gate:
    """Give it doors; ``check`` as often as you like: it changes nothing but what it knows to be warm."""

    def __init__(
        self,
        *,
        raylets: RayletDoor,
        heads: HeadDoor,
        clock: Clock,
        smoke: SmokeDoor | None = None,
        hooks: HooksDoor | None = None,
    ) -> None:
        """Without ``smoke`` no GPU is put to work, without ``hooks`` nothing of the site's is run."""
        self._raylets = raylets
        self._heads = heads
        self._clock = clock
        self._known: dict[str, tuple[float, HeadVersions]] = {}
        self._passed_at: dict[GpuUuid, float] = {}
        self._smoking = asyncio.Lock()
        self._smoke = smoke
        self._hooks = hooks

    async def check(
        self, head: str, subject: Subject, *, occasion: Occasion = Occasion.JOIN, is_quiet: bool = False
    ) -> Preflight:
        """Return every check of a join to this head; GPUs are put to work once all else has passed.

        ``is_quiet`` = that and the site's hook are left out.
        """
        snapshot = subject.snapshot
        local: HeadVersions | None = None
        remote: HeadVersions | None = None
        missing = ""
        unreachable: HeadUnreachable | None = None
        try:
            local = self._raylets.versions()
        except JoinFailed as error:
            missing = error.detail
        try:
            remote = await self._versions(head, may_be_warm=occasion is Occasion.JOIN)
        except HeadUnreachable as error:
            unreachable = error
        good = subject.good
        facts = JoinFacts(
            head=head,
            local=local,
            remote=remote,
            declared=snapshot.declared,
            counted=snapshot.probe.counted if snapshot.probe else None,
            healthy=len(good),
            verdict=subject.verdict,
            missing=missing,
            unreachable=str(unreachable or ""),
            fault=unreachable.fault if unreachable else None,
            ground=self._raylets.ground(),
            host=snapshot.host,
        )
        report = preflight(facts)
        report = _with(report, *fitness.checks(snapshot, good, subject.memory), *_left_out(subject))
        if report.passed and self._smoke is not None and not is_quiet:
            for gpu in good:
                smoked = await self._smoked(self._smoke, gpu, occasion)
                report = _with(report, fitness.smoke_check(gpu, smoked))
        if report.passed and self._hooks is not None and not is_quiet and occasion is not Occasion.REHEARSAL:
            ended = await self._hooks.run(
                PRE_JOIN, {"reason": "a join is about to start", "gpus": ",".join(good)}
            )
            report = _with(report, *fitness.hook_checks(ended))
        if report.passed and occasion is Occasion.JOIN:
            self._passed_at.clear()  # they serve now: what they passed before says nothing afterwards
        return report

    async def _versions(self, head: str, *, may_be_warm: bool) -> HeadVersions:
        """Return what the head runs; raises HeadUnreachable."""
        known = self._known.pop(head, None)
        warm = known if known and warmth.is_warm(known[0], self._clock.now(), warmth.HEAD_S) else None
        if may_be_warm and warm is not None and await self._heads.knock(head):
            self._known[head] = warm
            return warm[1]
        versions = await self._heads.versions(head)
        self._known = {head: (self._clock.now(), versions), **self._known}
        while len(self._known) > _HEADS_KEPT:
            self._known.popitem()
        return versions

    async def _smoked(self, smoke: SmokeDoor, gpu: GpuUuid, occasion: Occasion) -> Smoked:
        """Return how the GPU's smoke work ends, or has ended lately; one at a time, whoever asks."""
        most_s = {Occasion.JOIN: warmth.SMOKE_S, Occasion.REHEARSAL: warmth.SMOKE_AGAIN_S}.get(occasion)
        async with self._smoking:
            passed_at = self._passed_at.get(gpu)
            if most_s is not None and warmth.is_warm(passed_at, self._clock.now(), most_s):
                return Smoked(outcome=SmokeOutcome.PASSED, detail="a while ago")
            smoked = await smoke.run(gpu)
            self._passed_at.pop(gpu, None)
            if smoked.outcome is SmokeOutcome.PASSED:
                self._passed_at[gpu] = self._clock.now()
            return smoked


def _left_out(subject: Subject) -> Iterator[Check]:
    """Yield as warnings why healthy GPUs would not be offered: the others join without them."""
    healthy = [g.uuid for g in gpus(subject.snapshot, subject.of_gpus) if g.healthy]
    aside = [gpu for gpu in healthy if gpu not in subject.good]
    for refusals in fitness.unfit(subject.snapshot, aside, subject.memory).values():
        yield from (replace(check, is_warning=True) for check in refusals)


def _with(report: Preflight, *checks: Check) -> Preflight:
    return replace(report, checks=(*report.checks, *checks))
