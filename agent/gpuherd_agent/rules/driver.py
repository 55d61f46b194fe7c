"""The driver: hung, absent, or a probe child that died. Judges how a probe cycle ended, no GPU. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import NvmlCode, ProbeOutcome, Snapshot

HUNG: Final = "driver_hung"
GPU_HUNG: Final = "gpu_hung"
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

    A host that declares no GPU is only watched: it has no work that needs the driver. When single GPUs are
    to blame it is theirs to tell.
    """
    probe = snapshot.probe
    if probe is None or probe.outcome is not ProbeOutcome.DEADLINE or probe.missed == 0:
        return
    sure = probe.missed >= limits.misses and snapshot.declared > 0
    yield Finding(
        rule=HUNG,
        severity=Severity.CRITICAL if sure else Severity.WARN,
        action=Action.EVICT if sure else Action.WATCH,
        repair=Repair.REBOOT,
        reason=(
            f"the driver does not answer{_in(probe.call)} "
            f"({probe.missed} probe children in a row missed their deadline)"
        ),
        evidence={"missed": probe.missed, "stuck_children": probe.stuck_children},
    )


def judge_hung_gpu(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose calls do not come back: a warning first, then its eviction."""
    probe = snapshot.probe
    for hung in probe.hung if probe else ():
        sure = hung.missed >= limits.misses
        name = f"GPU {hung.gpu}" if hung.gpu else f"the GPU at index {hung.index}"
        times = "once" if hung.missed == 1 else f"{hung.missed} times in a row"
        yield Finding(
            rule=GPU_HUNG,
            severity=Severity.CRITICAL if sure else Severity.WARN,
            action=Action.EVICT if sure else Action.WATCH,
            repair=Repair.REBOOT,
            reason=f"{name} does not answer{_in(hung.call)} ({times}); the others are read without it",
            gpu=hung.gpu,
            evidence={"missed": hung.missed, "index": hung.index},
        )


def _in(call: str) -> str:
    return f" in {call}" if call else ""


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
