"""The driver: hung, absent, or a probe child that died. Judges how a probe cycle ended, no GPU. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import NvmlCode, ProbeOutcome, Snapshot

HUNG: Final = "driver_hung"
MISSING: Final = "driver_missing"
PROBE: Final = "probe_died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.driver]``."""

    misses: int = 2
    """Probe children in a row that must miss the deadline. One may be a starved host; each more costs the
    probe's back-off before the node acts."""


def judge_hung(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while the driver does not answer: a warning first, then the node's eviction.

    A host that declares no GPU is only watched: it has no work that needs the driver.
    """
    probe = snapshot.probe
    if probe is None or probe.outcome is not ProbeOutcome.DEADLINE:
        return
    sure = probe.missed >= limits.misses and snapshot.declared > 0
    yield Finding(
        rule=HUNG,
        severity=Severity.CRITICAL if sure else Severity.WARN,
        action=Action.EVICT if sure else Action.WATCH,
        repair=Repair.REBOOT,
        reason=f"the driver does not answer ({probe.missed} probe children in a row missed their deadline)",
        evidence={"missed": probe.missed, "stuck_children": probe.stuck_children},
    )


def judge_missing(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when a host that declares GPUs has no usable driver."""
    del limits
    probe = snapshot.probe
    if probe is None or probe.outcome is not ProbeOutcome.NO_DRIVER or snapshot.declared == 0:
        return
    # Code 18: upgraded without a reload. What runs goes on running, so nothing is evicted for it.
    upgraded = probe.code == NvmlCode.LIB_RM_VERSION_MISMATCH
    yield Finding(
        rule=MISSING,
        severity=Severity.CRITICAL,
        action=Action.CORDON if upgraded else Action.EVICT,
        repair=Repair.REBOOT,
        reason=(
            "the driver was upgraded and not reloaded (NVML code 18)"
            if upgraded
            else f"no driver answers (NVML code {probe.code}) and {snapshot.declared} GPUs are declared"
        ),
        evidence={} if probe.code is None else {"nvml_code": probe.code},
    )


def judge_probe(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when the probe child died: our own trouble, never the node's."""
    del limits
    if snapshot.probe is not None and snapshot.probe.outcome is ProbeOutcome.CHILD_DIED:
        yield Finding(
            rule=PROBE,
            severity=Severity.WARN,
            action=Action.WATCH,
            reason="the GPU probe ended unasked; a new one is started",
        )
