"""Repair with proof: the next step for a finding, and everything that stands in its way. Pure.

Steps rise from a reset of the GPU to its replacement. What was tried is remembered over reboots; a reboot
counts once the boot id has changed. Only the two lowest steps are ever a machine's to do.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpuherd.health import Finding, Repair
from gpuherd.names import GpuUuid
from gpuherd.phases import Phase
from gpuherd.preflight import Check, Preflight


class Step(enum.StrEnum):
    """A repair, weakest first."""

    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    INSPECT = "inspect"
    RMA = "rma"


LADDER: Final = tuple(Step)
OURS: Final = frozenset({Step.RESET_GPU, Step.REBOOT})
"""What a machine may do; the rest is told to people."""
REBOOT_GAP_S: Final = 6 * 3_600.0
FORGOTTEN_AFTER_S: Final = 30 * 86_400.0
RECORDS_KEPT: Final = 64

_FIRST: Final = {
    Repair.RESET_GPU: Step.RESET_GPU,
    Repair.BUS_RESET: Step.REBOOT,
    Repair.REBOOT: Step.REBOOT,
    Repair.INSPECT: Step.INSPECT,
    Repair.RMA: Step.RMA,
}


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was begun; ``wall`` is wall-clock seconds, ``boot_id`` of the boot in which it began."""

    step: Step
    rule: str
    gpu: GpuUuid | None = None
    wall: float
    boot_id: str


def next_step(finding: Finding, attempts: Sequence[Attempt], *, boot_id: str, wall: float) -> Step | None:
    """Return what is due for this finding: its own hint, or the step above the strongest that did not help.

    None = nothing on the ladder mends it, such as an error of the application.
    """
    first = _FIRST.get(finding.repair)
    if first is None:
        return None
    tried = [
        LADDER.index(a.step)
        for a in attempts
        if (a.rule, a.gpu) == finding.key and wall - a.wall < FORGOTTEN_AFTER_S and _is_over(a, boot_id)
    ]
    reached = max(tried, default=-1)
    return LADDER[min(max(LADDER.index(first), reached + 1), len(LADDER) - 1)]


def _is_over(attempt: Attempt, boot_id: str) -> bool:
    """Say whether the step has happened: of a reboot only another boot id is proof."""
    return attempt.step is not Step.REBOOT or attempt.boot_id != boot_id


def remembered(attempts: Sequence[Attempt], attempt: Attempt) -> tuple[Attempt, ...]:
    """Return what is known of attempts after this one was begun."""
    return (*attempts, attempt)[-RECORDS_KEPT:]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFacts:
    """What a repair is judged by; None = not known, which never passes.

    ``clients`` are processes on the GPU, or on any GPU for a reboot; ``logins`` are interactive sessions.
    ``allowed`` are the steps that the site lets a machine do.
    """

    phase: Phase
    has_raylet: bool
    clients: int | None
    foreign: int | None
    logins: int | None
    attempts: Sequence[Attempt]
    wall: float
    allowed: frozenset[Step]


def guards(step: Step, facts: RepairFacts) -> Preflight:
    """Return every check of a repair, all of them always: a dry run shows the whole list."""
    return Preflight(checks=tuple(_checks(step, facts)))


def _checks(step: Step, facts: RepairFacts) -> Iterator[Check]:
    ours = step in OURS
    yield Check(
        code="step",
        passed=ours,
        what=f"next step: {step.value}",
        mend="" if ours else "a person does this: `agentctl evidence` packs what the vendor asks for",
    )
    if not ours:
        return
    allowed = step in facts.allowed
    yield Check(
        code="allowed",
        passed=allowed,
        what=f"{step.value} {'is' if allowed else 'is not'} allowed on this host",
        mend="" if allowed else f"set [repair] {step.value} = true",
    )
    out = facts.phase is Phase.OUTSIDE and not facts.has_raylet
    yield Check(
        code="drained",
        passed=out,
        what="the node is outside Ray" if out else f"the node is {facts.phase.value}, work may run",
        mend="" if out else "drain it first: `agentctl drain`",
    )
    yield _none(
        "clients", facts.clients, "processes hold the GPU", "end them; Ray, DCGM and our probe count too"
    )
    yield _none("foreign", facts.foreign, "processes that are not Ray's use GPUs", "ask who they belong to")
    yield _none("logins", facts.logins, "people are logged in", "ask them to leave, or repair by hand")
    if step is Step.REBOOT:
        yield _rate(facts)


def _none(code: str, count: int | None, what: str, mend: str) -> Check:
    if count is None:
        return Check(code=code, passed=None, what=f"it is not known how many {what}", mend=mend)
    return Check(code=code, passed=count == 0, what=f"{count} {what}", mend=mend if count else "")


def _rate(facts: RepairFacts) -> Check:
    last = max((a.wall for a in facts.attempts if a.step is Step.REBOOT), default=None)
    age_s = None if last is None else facts.wall - last
    # A clock that was set back makes an attempt lie ahead: that is no reason to reboot again.
    passed = age_s is None or age_s >= REBOOT_GAP_S
    said = (
        "no reboot by us is on record"
        if age_s is None
        else f"the last reboot by us was {age_s / 3_600:.1f} h ago"
    )
    return Check(
        code="reboot_rate",
        passed=passed,
        what=said,
        mend=""
        if passed
        else f"at most one in {REBOOT_GAP_S / 3_600:.0f} h; a person may reboot at any time",
    )
