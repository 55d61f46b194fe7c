"""Shrink to healthy: which GPUs a raylet offers, and what of the verdict concerns one that offers them. Pure.

Ray cannot drop one GPU of a live node. A sick GPU costs the whole node until its work has ended; then the
node rejoins with the good ones, and with all of them once the sick one is well again.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.names import GpuUuid
from gpuherd_agent.doors import Raylet
from gpuherd_agent.rules import dropout

MIN_RATIO: Final = 0.5
GROW_AFTER_S: Final = 20.0
"""How long more GPUs must be good before the node is taken out to rejoin with them."""
GROW_PATIENCE_S: Final = 3_600.0
"""How long the node is only asked while idle; then it takes no new work until it is empty."""


def worthwhile(healthy: Sequence[GpuUuid], *, declared: int, min_ratio: float = MIN_RATIO) -> bool:
    """Say whether the node shall serve with these GPUs only: at least one, and the share that is asked."""
    return len(healthy) >= max(1, math.ceil(declared * min_ratio - 1e-9))


def offered(
    raylet: Raylet | None, healthy: Sequence[GpuUuid], *, declared: int, min_ratio: float = MIN_RATIO
) -> frozenset[GpuUuid] | None:
    """Return the GPUs that the raylet offers, or that one started now would; None = all there may be."""
    if raylet is not None:
        return frozenset(raylet.offered) if raylet.offered else None
    return frozenset(healthy) if worthwhile(healthy, declared=declared, min_ratio=min_ratio) else None


def concerning(verdict: Verdict, gpus: Collection[GpuUuid] | None) -> Verdict:
    """Return the verdict on a node that offers these GPUs only.

    What is found on another GPU is still told, and leads to no act: nothing runs there.
    """
    if gpus is None or verdict.action < Action.CORDON:
        return verdict
    aside = {f.key for f in verdict.findings if f.gpu is not None and f.gpu not in gpus}
    lost = sum(f.rule == dropout.LOST and f.key in aside for f in verdict.findings)
    return fold(_set_aside(f) if f.key in aside or _explains_count(f, lost) else f for f in verdict.findings)


def is_degraded(gpus: Collection[GpuUuid], *, declared: int) -> bool:
    """Say whether a raylet with these GPUs offers less than the host is meant to have."""
    return 0 < len(gpus) < declared


def may_grow(raylet: Raylet, startable: Sequence[GpuUuid]) -> bool:
    """Say whether a raylet started now would offer all that this one does and more."""
    return bool(raylet.offered) and set(startable) > set(raylet.offered)


def _set_aside(finding: Finding) -> Finding:
    severity = min(finding.severity, Severity.DEGRADED)
    return replace(finding, severity=severity, action=min(finding.action, Action.WATCH))


def _explains_count(finding: Finding, lost: int) -> bool:
    """Say whether as many GPUs are missing as are known to be lost and are not offered."""
    if finding.rule != dropout.COUNT or finding.gpu is not None:
        return False
    declared, counted = finding.evidence.get("declared"), finding.evidence.get("counted")
    if not (isinstance(declared, int) and isinstance(counted, int)):
        return False
    return 0 < declared - counted <= lost


def model_label(models: Collection[str]) -> str:
    """Return the model that these GPUs share as Ray takes it in a label, empty when they share none.

    Ray 2.60: at most 63 letters, digits, dashes, underscores and dots, with a letter or digit at both ends.
    """
    if len(set(models)) != 1:
        return ""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in next(iter(models)))
    return plain[:63].strip("-_.")
