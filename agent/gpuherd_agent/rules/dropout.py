"""Dropout: a GPU that is gone, wants a reset, gives no handle, or is not even counted. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import LostHandle, NvmlCode, ProbeReading, Snapshot

LOST: Final = "gpu_lost"
COUNT: Final = "gpu_count"
RESET: Final = "gpu_reset_required"
HANDLE: Final = "gpu_handle"
RECOVERY: Final = "gpu_recovery_action"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.dropout]``: there are none, a GPU is there or it is not."""


def judge_lost(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the driver calls lost; all of them at once are one finding."""
    del limits
    probe = snapshot.probe
    if probe is None:
        return
    gone: list[tuple[GpuUuid | None, str]] = [
        (g.gpu, f"GPU {g.gpu} ({g.pci_bus_id}) is lost: it has fallen off the bus")
        for g in probe.gpus
        if NvmlCode.GPU_IS_LOST in g.errors.values()
    ]
    gone += [
        (gpu, f"GPU {gpu or f'with index {h.index}'} is lost: it has fallen off the bus")
        for h, gpu in _named(probe, snapshot, NvmlCode.GPU_IS_LOST)
    ]
    if len(gone) > 1 and len(gone) >= (probe.counted or 0):
        yield _lost(None, f"all {len(gone)} GPUs are lost: look for one cause, such as power or the driver")
        return
    for gpu, reason in gone:
        yield _lost(gpu, reason)


def _lost(gpu: GpuUuid | None, reason: str) -> Finding:
    return Finding(
        rule=LOST,
        severity=Severity.CRITICAL,
        action=Action.EVICT,
        repair=Repair.REBOOT,
        reason=reason,
        gpu=gpu,
        evidence={"nvml_code": NvmlCode.GPU_IS_LOST.value},
    )


def _named(
    probe: ProbeReading, snapshot: Snapshot, *codes: NvmlCode
) -> Iterator[tuple[LostHandle, GpuUuid | None]]:
    """Yield handles that failed with one of the codes, each with a GPU that was seen before and is not now.

    The index alone names nobody: indexes move when a GPU goes.
    """
    here = {g.gpu for g in probe.gpus}
    vanished = iter([gpu for gpu in snapshot.known if gpu not in here])
    for handle in probe.lost:
        gpu = next(vanished, None)
        if handle.code in codes:
            yield handle, gpu


def judge_count(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when the driver counts other than the declared number of GPUs."""
    del limits
    probe = snapshot.probe
    if probe is None or probe.counted is None or probe.counted == snapshot.declared:
        return
    fewer = probe.counted < snapshot.declared
    here = {g.gpu for g in probe.gpus}
    vanished = [gpu for gpu in snapshot.known if gpu not in here]
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
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if NvmlCode.RESET_REQUIRED in gpu.errors.values():
            yield Finding(
                rule=RESET,
                severity=Severity.CRITICAL,
                action=Action.DRAIN,
                repair=Repair.RESET_GPU,
                reason=f"GPU {gpu.gpu} ({gpu.pci_bus_id}) needs a reset",
                gpu=gpu.gpu,
                evidence={"nvml_code": NvmlCode.RESET_REQUIRED.value},
            )


def judge_handle(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each index without a handle for another reason than a lost GPU."""
    del limits
    probe = snapshot.probe
    for handle in probe.lost if probe else ():
        if handle.code != NvmlCode.GPU_IS_LOST:
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
