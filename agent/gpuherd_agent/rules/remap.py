"""Rows and pages of memory taken out of use: waiting, failed, too many, beyond repair. Pure.

Only what the driver offers is judged: some boards answer the question without having the feature, so a
GPU without ECC is left out (RTX boards answer with zeros).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

PENDING: Final = "remap_pending"
FAILED: Final = "remap_failed"
VOLUME: Final = "remap_volume"
UNREPAIRABLE: Final = "memory_unrepairable"
RETIRED: Final = "retired_pages"
RETIRED_PENDING: Final = "retired_pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.remap]``."""

    uncorrectable_max: int = 512
    """Remapped rows with uncorrectable errors from which a board is told of. DCGM warns from 512."""
    retired_max: int = 63
    """Retired pages from which a board is broken: the driver has room for 64 (DCGM fails at 63)."""


def has_remap(gpu: GpuReading) -> bool:
    """Say whether the board remaps rows and tells of it."""
    return gpu.is_row_remap_pending is not None and gpu.ecc_enabled is not False


def has_pages(gpu: GpuReading) -> bool:
    """Say whether the board retires pages and tells of it."""
    return gpu.retired_pages_total is not None or gpu.retired_pending is not None


def has_repair(gpu: GpuReading) -> bool:
    """Say whether the board tells whether its memory can be repaired."""
    return gpu.unrepairable is not None


def judge_pending(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with a row that waits for a reset to be remapped."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.is_row_remap_pending and has_remap(gpu):
            yield _finding(
                PENDING,
                gpu,
                Severity.DEGRADED,
                Action.CORDON,
                Repair.RESET_GPU,
                "a memory row waits for a reset to be remapped",
            )


def judge_failed(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that could not remap a row: the board has to be replaced."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.is_row_remap_failed and has_remap(gpu):
            yield _finding(
                FAILED, gpu, Severity.CRITICAL, Action.DRAIN, Repair.RMA, "a memory row could not be remapped"
            )


def judge_volume(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that is running out of spare rows."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        rows, banks = gpu.rows_remapped_uncorrected_total or 0, gpu.banks_without_spares or 0
        if has_remap(gpu) and (rows >= limits.uncorrectable_max or banks > 0):
            words = f"{rows} rows remapped for uncorrectable errors, {banks} banks without spare rows"
            yield _finding(VOLUME, gpu, Severity.WARN, Action.WATCH, Repair.INSPECT, words)


def judge_unrepairable(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose memory the driver calls beyond repair."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.unrepairable:
            words = "the driver calls its memory beyond repair"
            yield _finding(UNREPAIRABLE, gpu, Severity.CRITICAL, Action.DRAIN, Repair.RMA, words)


def judge_retired(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that has retired nearly all the pages that it can."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        pages = gpu.retired_pages_total
        if pages is not None and pages >= limits.retired_max:
            words = f"{pages} memory pages retired, of 64 that can be"
            yield _finding(RETIRED, gpu, Severity.CRITICAL, Action.DRAIN, Repair.RMA, words)


def judge_retired_pending(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with a page that waits for a reset to be retired."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.retired_pending:
            words = "a memory page waits for a reset to be retired"
            yield _finding(RETIRED_PENDING, gpu, Severity.DEGRADED, Action.CORDON, Repair.RESET_GPU, words)


def _finding(
    rule: str, gpu: GpuReading, severity: Severity, action: Action, repair: Repair, words: str
) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        action=action,
        repair=repair,
        reason=f"GPU {gpu.gpu}: {words}",
        gpu=gpu.gpu,
        evidence={
            "rows_remapped_uncorrected_total": gpu.rows_remapped_uncorrected_total or 0,
            "retired_pages_total": gpu.retired_pages_total or 0,
        },
    )
