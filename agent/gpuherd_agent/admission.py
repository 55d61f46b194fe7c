"""May this node join? Versions, counts, health and the host against what the head runs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gpuherd.errors import HeadFault
from gpuherd.health import Action, Severity, Verdict
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import HeadVersions
from gpuherd_agent import ground as grounds
from gpuherd_agent.ground import Ground
from gpuherd_agent.readings import HostReading
from gpuherd_agent.refusals import JoinRefusal

MEMORY_LOW_RATIO: Final = 0.05
"""Ray kills workers once less than this share of memory is free (RAY_memory_usage_threshold 0.95)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFacts:
    """What a join is judged by.

    ``local`` None = Ray is not installed (``missing`` says how); ``remote`` None = the head did not
    answer (``unreachable`` says how and ``fault`` of which sort that is).
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
    fault: HeadFault | None = None
    ground: Ground = field(default_factory=Ground)
    host: HostReading | None = None


def preflight(facts: JoinFacts) -> Preflight:
    """Return every check of a join, each refusal with the command or setting that mends it.

    Ray's own rule is equality of the Ray version and of Python down to the patch; left to itself it
    tells a difference late and misleadingly.
    """
    checks = [*_ray(facts.local, facts.missing), *_head(facts)]
    if facts.local is not None and facts.remote is not None:
        checks.extend(_versions(facts.local, facts.remote))
    checks.extend(grounds.checks(facts.ground))
    checks.extend(_memory(facts.host))
    checks.append(_count(facts))
    checks.append(_health(facts.verdict))
    return Preflight(checks=tuple(checks), session=facts.remote.session if facts.remote else "")


def _ray(local: HeadVersions | None, missing: str) -> Iterator[Check]:
    yield Check(
        code=JoinRefusal.RAY_MISSING,
        passed=local is not None,
        what=missing or f"Ray {local.ray if local else ''} is installed",
        mend="" if local is not None else "install Ray on this node or correct [ray] binary",
    )


_FAULTS: Final = {
    HeadFault.UNRESOLVED: (
        JoinRefusal.HEAD_UNRESOLVED,
        "`getent hosts NAME` must give an address: mend DNS or /etc/hosts, or correct [head] addresses",
    ),
    HeadFault.REFUSED: (
        JoinRefusal.HEAD_REFUSED,
        "start the head (`systemctl start gpuherd-head`), or correct the port in [head] addresses",
    ),
    HeadFault.SILENT: (
        JoinRefusal.HEAD_SILENT,
        "see that its host is up and no firewall drops the port; there `systemctl status gpuherd-head`",
    ),
    HeadFault.FOREIGN: (
        JoinRefusal.HEAD_FOREIGN,
        "correct the port in [head] addresses: what answers there is no head of Ray",
    ),
    HeadFault.TOKEN: (
        JoinRefusal.TOKEN_REFUSED,
        "copy the head's token into [ray] token_path of this node",
    ),
}
_OTHER_FAULT: Final = (JoinRefusal.HEAD_UNREACHABLE, "start the head, or correct [head] addresses")


def _head(facts: JoinFacts) -> Iterator[Check]:
    """One check of the way to the head, by the name of its fault, and one of the mode."""
    if facts.ground.token_error:
        return  # not asked without the token; that check tells
    if facts.remote is None:
        wants_token = facts.fault is HeadFault.TOKEN and facts.ground.auth_mode != "token"
        code, mend = _FAULTS.get(facts.fault, _OTHER_FAULT) if facts.fault else _OTHER_FAULT
        if wants_token:
            code = JoinRefusal.AUTH_MODE
            mend = 'set [ray] auth_mode = "token" and token_path: the head wants a token'
        yield Check(code=code, passed=False, what=f"head {facts.head}: {facts.unreachable}", mend=mend)
        return
    yield Check(code=JoinRefusal.HEAD_UNREACHABLE, passed=True, what=f"head {facts.head} answers")
    is_mixed = facts.ground.auth_mode == "token" and facts.remote.is_open is True
    yield Check(
        code=JoinRefusal.AUTH_MODE,
        passed=not is_mixed,
        what=f'head {facts.head} answers without a token, and [ray] auth_mode here is "token"'
        if is_mixed
        else f"both sides say {facts.ground.auth_mode}",
        mend='start the head with RAY_AUTH_MODE=token, or set [ray] auth_mode = "disabled"'
        if is_mixed
        else "",
    )


def _versions(local: HeadVersions, remote: HeadVersions) -> Iterator[Check]:
    for code, name, ours, theirs in (
        (JoinRefusal.RAY_VERSION, "Ray", local.ray, remote.ray),
        (JoinRefusal.PYTHON_VERSION, "Python", local.python, remote.python),
    ):
        equal = ours == theirs
        yield Check(
            code=code,
            passed=equal,
            what=f"{name} here is {ours}, on the head {theirs}",
            mend="" if equal else f"install {name} {theirs} for [ray] binary on this node",
        )


def _memory(host: HostReading | None) -> Iterator[Check]:
    if host is None or not host.memory_total_bytes:
        return
    free = host.memory_available_bytes / host.memory_total_bytes
    low = free < MEMORY_LOW_RATIO
    yield Check(
        code=JoinRefusal.MEMORY_LOW,
        passed=not low,
        what=f"{free:.0%} of memory is free"
        + (f", below {MEMORY_LOW_RATIO:.0%} Ray kills work" if low else ""),
        mend="`ps aux --sort=-rss | head` names who has it; end what is not needed" if low else "",
    )


def _count(facts: JoinFacts) -> Check:
    """Fewer GPUs than declared pass when health knows of each that is missing: the others serve."""
    declared, counted = facts.declared, facts.counted
    if counted is None:
        return Check(
            code=JoinRefusal.GPU_COUNT,
            passed=None if declared else True,
            what=f"{declared} GPUs declared, none could be counted yet",
        )
    shrinks = 0 < facts.healthy <= counted < declared and facts.verdict.action < Action.CORDON
    serves = shrinks and facts.verdict.severity > Severity.UNKNOWN
    equal = declared == counted
    return Check(
        code=JoinRefusal.GPU_COUNT,
        passed=equal or serves,
        what=f"{declared} GPUs declared, {counted} counted",
        mend="" if equal or serves else "mend the GPUs, or correct [gpu] declared",
    )


def _health(verdict: Verdict) -> Check:
    if verdict.severity is Severity.UNKNOWN and not verdict.findings:
        return Check(code=JoinRefusal.HEALTH, passed=None, what="the node's health is not known yet")
    fit = verdict.action < Action.CORDON
    return Check(
        code=JoinRefusal.HEALTH, passed=fit, what="healthy enough to serve" if fit else verdict.reason
    )
