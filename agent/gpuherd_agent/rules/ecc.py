"""Uncorrected memory errors since the first look: data may be wrong, so the GPU gets no new work. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

NAME: Final = "ecc_uncorrected"
SRAM: Final = "ecc_sram_threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.ecc]``."""

    rise_max: int = 0
    """New uncorrected errors that are borne. Every peer uses 0: one such error has already hurt a job."""


def has_count(gpu: GpuReading) -> bool:
    """Say whether this reading could show new errors."""
    return gpu.ecc_uncorrected_volatile_total is not None


def judge(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose volatile uncorrected count rose above its first reading."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        count, base = gpu.ecc_uncorrected_volatile_total, snapshot.ecc_baseline.get(gpu.gpu)
        if count is None or base is None or count - base <= limits.rise_max:
            continue
        yield Finding(
            rule=NAME,
            severity=Severity.CRITICAL,
            action=Action.DRAIN,
            repair=Repair.RESET_GPU,
            reason=f"{count - base} new uncorrected memory errors on GPU {gpu.gpu}",
            gpu=gpu.gpu,
            evidence={"uncorrected_volatile_total": count, "baseline_total": base},
        )


def has_sram(gpu: GpuReading) -> bool:
    """Say whether the board tells of its SRAM threshold."""
    return gpu.sram_threshold_exceeded is not None


def judge_sram(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that has had more SRAM errors than its maker allows."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.sram_threshold_exceeded:
            yield Finding(
                rule=SRAM,
                severity=Severity.CRITICAL,
                action=Action.DRAIN,
                repair=Repair.RMA,
                reason=f"GPU {gpu.gpu} has passed the SRAM error threshold of its maker",
                gpu=gpu.gpu,
                evidence={"sram_uncorrected_total": gpu.sram_uncorrected_total or 0},
            )
