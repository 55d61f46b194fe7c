"""The gate before each join: asks everything that a join is judged by, and hands out the report.

A shell: what passes is decided in ``admission`` and ``fitness``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.errors import HeadUnreachable
from gpuherd.health import Verdict
from gpuherd.names import GpuUuid
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import HeadVersions
from gpuherd_agent import fitness
from gpuherd_agent.admission import JoinFacts, preflight
from gpuherd_agent.doors import HeadDoor, HooksDoor, JoinFailed, RayletDoor, SmokeDoor
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.state_document import gpus

PRE_JOIN: Final = "pre-join"


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
    """Give it doors; ``check`` as often as you like: it changes nothing."""

    def __init__(
        self,
        *,
        raylets: RayletDoor,
        heads: HeadDoor,
        smoke: SmokeDoor | None = None,
        hooks: HooksDoor | None = None,
    ) -> None:
        """Without ``smoke`` no GPU is put to work, without ``hooks`` nothing of the site's is run."""
        self._raylets = raylets
        self._heads = heads
        self._smoke = smoke
        self._hooks = hooks

    async def check(self, head: str, subject: Subject, *, is_quiet: bool = False) -> Preflight:
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
            remote = await self._heads.versions(head)
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
                report = _with(report, fitness.smoke_check(gpu, await self._smoke.run(gpu)))
        if report.passed and self._hooks is not None and not is_quiet:
            ended = await self._hooks.run(
                PRE_JOIN, {"reason": "a join is about to start", "gpus": ",".join(good)}
            )
            report = _with(report, *fitness.hook_checks(ended))
        return report


def _left_out(subject: Subject) -> Iterator[Check]:
    """Yield as warnings why healthy GPUs would not be offered: the others join without them."""
    healthy = [g.uuid for g in gpus(subject.snapshot, subject.of_gpus) if g.healthy]
    aside = [gpu for gpu in healthy if gpu not in subject.good]
    for refusals in fitness.unfit(subject.snapshot, aside, subject.memory).values():
        yield from (replace(check, is_warning=True) for check in refusals)


def _with(report: Preflight, *checks: Check) -> Preflight:
    return replace(report, checks=(*report.checks, *checks))
