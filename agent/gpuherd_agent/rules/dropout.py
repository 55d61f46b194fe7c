"""Dropout: a GPU that is gone, wants a reset, gives no handle, or is not even counted. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, NvmlCode, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.rules import counts

LOST: Final = "gpu_lost"
COUNT: Final = "gpu_count"
RESET: Final = "gpu_reset_required"
HANDLE: Final = "gpu_handle"
RECOVERY: Final = "gpu_recovery_action"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.dropout]``: there are none, a GPU is there or it is not."""


def judge_lost(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that is gone; when no other is left, one for the node instead.

    Gone is what the driver calls lost, and what it no longer counts on a host that has fewer than declared.
    """
    del limits
    probe = snapshot.probe
    if probe is None or probe.outcome is not ProbeOutcome.OK or counts.is_denied(snapshot):
        return
    gone = [
        *((g.gpu, "has fallen off the bus") for g in probe.gpus if NvmlCode.GPU_IS_LOST in g.errors.values()),
        *((gpu, words) for gpu, words in _handles(probe, snapshot, NvmlCode.GPU_IS_LOST)),
        *((gpu, "is no longer counted by the driver") for gpu in _uncounted(probe, snapshot)),
    ]
    left = sum(NvmlCode.GPU_IS_LOST not in g.errors.values() for g in probe.gpus)
    left += sum(handle.code != NvmlCode.GPU_IS_LOST for handle in probe.lost) + len(probe.hung)
    if len(gone) > 1 and left == 0:
        reason = f"all {len(gone)} GPUs are lost: look for one cause, such as power or the driver"
        yield _lost(None, reason, len(gone), left)
        return
    for gpu, words in gone:
        yield _lost(gpu, f"{_name(gpu, snapshot)} is lost: it {words}", len(gone), left)


def is_of_all_gpus(finding: Finding) -> bool:
    """Say whether this is the one incident that all GPUs are lost: other findings follow from it."""
    return finding.rule == LOST and finding.gpu is None and finding.evidence.get("gpus_left") == 0


def _lost(gpu: GpuUuid | None, reason: str, lost: int, left: int) -> Finding:
    return Finding(
        rule=LOST,
        severity=Severity.CRITICAL,
        action=Action.EVICT,
        repair=Repair.REBOOT,
        reason=reason,
        gpu=gpu,
        evidence={"gpus_lost": lost, "gpus_left": left},
    )


def _name(gpu: GpuUuid | None, snapshot: Snapshot) -> str:
    if gpu is None:
        return "a GPU that was not seen before"
    bus = snapshot.pci_bus_ids.get(gpu)
    return f"GPU {gpu} ({bus})" if bus else f"GPU {gpu}"


def _vanished(probe: ProbeReading, snapshot: Snapshot) -> list[GpuUuid]:
    here = {*(g.gpu for g in probe.gpus), *(hung.gpu for hung in probe.hung)}
    return [gpu for gpu in snapshot.known if gpu not in here]


def _handles(probe: ProbeReading, snapshot: Snapshot, code: NvmlCode) -> Iterator[tuple[GpuUuid | None, str]]:
    """Yield for each handle that failed with ``code`` a GPU that was seen before and is not now, and words.

    Both are in the order of indexes, so the pairs are true while every GPU is counted. The index alone
    names nobody: indexes move when a GPU goes.
    """
    vanished = iter(_vanished(probe, snapshot))
    for handle in probe.lost:
        gpu = next(vanished, None)
        if handle.code == code:
            yield gpu, f"has fallen off the bus (no handle at index {handle.index})"


def _uncounted(probe: ProbeReading, snapshot: Snapshot) -> list[GpuUuid]:
    """Return what was seen before and is not even counted.

    Nothing while as many as declared are counted: then a board was replaced.
    """
    if probe.counted is None or probe.counted >= snapshot.declared:
        return []
    return _vanished(probe, snapshot)[len(probe.lost) :]


def judge_count(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when the driver counts other than the declared number of GPUs."""
    del limits
    probe = snapshot.probe
    if probe is None or probe.counted is None or probe.counted == snapshot.declared:
        return
    if counts.is_denied(snapshot):
        return
    fewer = probe.counted < snapshot.declared
    vanished = _vanished(probe, snapshot)
    which = f"; gone: {', '.join(vanished[:8])}" if vanished else ""
    yield Finding(
        rule=COUNT,
        severity=Severity.CRITICAL if fewer else Severity.DEGRADED,
        action=Action.EVICT if fewer else Action.CORDON,
        repair=Repair.REBOOT if fewer else Repair.NONE,
        reason=f"{snapshot.declared} GPUs declared, {probe.counted} counted{which}",
        evidence={"declared": snapshot.declared, "counted": probe.counted},
    )


def judge_reset(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the driver will not use before a reset."""
    del limits
    probe = snapshot.probe
    if probe is None:
        return
    wanting = [g.gpu for g in probe.gpus if NvmlCode.RESET_REQUIRED in g.errors.values()]
    for gpu in (*wanting, *(gpu for gpu, _ in _handles(probe, snapshot, NvmlCode.RESET_REQUIRED))):
        yield Finding(
            rule=RESET,
            severity=Severity.CRITICAL,
            action=Action.DRAIN,
            repair=Repair.RESET_GPU,
            reason=f"{_name(gpu, snapshot)} needs a reset",
            gpu=gpu,
            evidence={"nvml_code": NvmlCode.RESET_REQUIRED.value},
        )


_OF_OTHER_RULES: Final = frozenset({NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED})


def judge_handle(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when an index has no handle for another reason than a lost GPU or a due reset."""
    del limits
    probe = snapshot.probe
    for handle in probe.lost if probe else ():
        if handle.code not in _OF_OTHER_RULES:
            yield Finding(
                rule=HANDLE,
                severity=Severity.CRITICAL,
                action=Action.DRAIN,
                repair=Repair.REBOOT,
                reason=f"the driver counts index {handle.index} and gives no handle: NVML code {handle.code}",
                evidence={"index": handle.index, "nvml_code": handle.code},
            )
            return


#: Field 230 -> (severity, action, repair, words). Source: nvml.h, nvmlDeviceGpuRecoveryAction_t.
_RECOVERY: Final = {
    1: (Severity.CRITICAL, Action.DRAIN, Repair.RESET_GPU, "a reset of the GPU"),
    2: (Severity.CRITICAL, Action.EVICT, Repair.REBOOT, "a reboot of the node"),
    3: (Severity.DEGRADED, Action.CORDON, Repair.NONE, "its peers drained"),
    4: (Severity.CRITICAL, Action.DRAIN, Repair.RESET_GPU, "a drain and a reset"),
    5: (Severity.DEGRADED, Action.CORDON, Repair.IMEX, "the IMEX domain recovered"),
    6: (Severity.CRITICAL, Action.DRAIN, Repair.BUS_RESET, "a reset of its bus"),
    7: (Severity.CRITICAL, Action.EVICT, Repair.REBOOT, "a reboot of the system"),
}


def has_recovery(gpu: GpuReading) -> bool:
    """Say whether the driver told what it asks for."""
    return gpu.recovery_action is not None


def judge_recovery(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU for which the driver asks an action; an unknown code never acts."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if not gpu.recovery_action:
            continue
        severity, action, repair, words = _RECOVERY.get(
            gpu.recovery_action,
            (Severity.WARN, Action.WATCH, Repair.INSPECT, f"action {gpu.recovery_action}, not known here"),
        )
        yield Finding(
            rule=RECOVERY,
            severity=severity,
            action=action,
            repair=repair,
            reason=f"the driver asks for {words}: GPU {gpu.gpu}",
            gpu=gpu.gpu,
            evidence={"recovery_action": gpu.recovery_action},
        )
