"""May this node join? Versions, counts and health against what the head runs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuherd.health import Action, Severity, Verdict
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import HeadVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFacts:
    """What a join is judged by.

    ``local`` None = Ray is not installed (``missing`` says how); ``remote`` None = the head did not
    answer (``unreachable`` says how).
    """

    head: str
    local: HeadVersions | None
    remote: HeadVersions | None
    declared: int
    counted: int | None
    verdict: Verdict
    """What concerns the node with the GPUs that it would offer."""
    healthy: int = 0
    missing: str = ""
    unreachable: str = ""


def preflight(facts: JoinFacts) -> Preflight:
    """Return every check of a join.

    Ray's own rule is equality of the Ray version and of Python down to the patch; left to itself it
    tells a difference late and misleadingly.
    """
    checks = [*_ray(facts.local, facts.missing), *_head(facts.head, facts.remote, facts.unreachable)]
    if facts.local is not None and facts.remote is not None:
        checks.extend(_versions(facts.local, facts.remote))
    checks.append(_count(facts))
    checks.append(_health(facts.verdict))
    return Preflight(checks=tuple(checks))


def _ray(local: HeadVersions | None, missing: str) -> Iterator[Check]:
    yield Check(
        code="ray_missing",
        passed=local is not None,
        what=missing or f"Ray {local.ray if local else ''} is installed",
        mend="" if local is not None else "install Ray on this node or correct [ray] binary",
    )


def _head(head: str, remote: HeadVersions | None, unreachable: str) -> Iterator[Check]:
    yield Check(
        code="head_unreachable",
        passed=remote is not None,
        what=f"head {head} answers" if remote is not None else f"head {head}: {unreachable}",
        mend="" if remote is not None else "start the head, or correct [head] addresses",
    )


def _versions(local: HeadVersions, remote: HeadVersions) -> Iterator[Check]:
    for code, name, ours, theirs in (
        ("ray_version", "Ray", local.ray, remote.ray),
        ("python_version", "Python", local.python, remote.python),
    ):
        equal = ours == theirs
        yield Check(
            code=code,
            passed=equal,
            what=f"{name} here is {ours}, on the head {theirs}",
            mend="" if equal else f"install {name} {theirs} for [ray] binary on this node",
        )


def _count(facts: JoinFacts) -> Check:
    """Fewer GPUs than declared pass when health knows of each that is missing: the others serve."""
    declared, counted = facts.declared, facts.counted
    if counted is None:
        return Check(
            code="gpu_count",
            passed=None if declared else True,
            what=f"{declared} GPUs declared, none could be counted yet",
        )
    shrinks = 0 < facts.healthy <= counted < declared and facts.verdict.action < Action.CORDON
    serves = shrinks and facts.verdict.severity > Severity.UNKNOWN
    equal = declared == counted
    return Check(
        code="gpu_count",
        passed=equal or serves,
        what=f"{declared} GPUs declared, {counted} counted",
        mend="" if equal or serves else "mend the GPUs, or correct [gpu] declared",
    )


def _health(verdict: Verdict) -> Check:
    if verdict.severity is Severity.UNKNOWN and not verdict.findings:
        return Check(code="health", passed=None, what="the node's health is not known yet")
    fit = verdict.action < Action.CORDON
    return Check(code="health", passed=fit, what="healthy enough to serve" if fit else verdict.reason)
