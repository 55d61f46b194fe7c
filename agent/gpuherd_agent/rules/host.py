"""The host itself: stalls for lack of memory, processes stuck in the driver, full disks. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import Snapshot

STALLED: Final = "host_memory_stalled"
STUCK: Final = "driver_processes_stuck"
DISK: Final = "host_disk_full"
IO: Final = "host_io_stalled"
CPU: Final = "host_cpu_stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.host]``."""

    memory_stall_ratio: float = 0.3
    """Share of 10 s in which nothing ran for lack of memory (PSI full). The kernel kills soon after."""
    io_stall_ratio: float = 0.5
    """Share of 10 s in which all that would run waited for a disk or a file server (PSI full)."""
    cpu_stall_ratio: float = 0.9
    """Share of 10 s in which somebody waited for a CPU (PSI some): GPUs starve behind it."""
    disk_free_ratio: float = 0.05
    """Ray refuses to spill objects when its disk is 95 % full."""


def judge_stalled(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding while the host stands still for lack of memory."""
    host = snapshot.host
    ratio = host.memory_stall_ratio if host else None
    if ratio is not None and ratio >= limits.memory_stall_ratio:
        yield Finding(
            rule=STALLED,
            severity=Severity.DEGRADED,
            action=Action.CORDON,
            repair=Repair.APP,
            reason=f"nothing runs for {ratio:.0%} of the time for lack of memory",
            evidence={"memory_stall_ratio": round(ratio, 3)},
        )


def judge_io(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding while the host stands still for its disks or file servers."""
    ratio = snapshot.host.io_stall_ratio if snapshot.host else None
    if ratio is not None and ratio >= limits.io_stall_ratio:
        yield _slow(IO, f"nothing runs for {ratio:.0%} of the time: all wait for input or output", ratio)


def judge_cpu(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding while processes wait for a CPU nearly all the time."""
    ratio = snapshot.host.cpu_stall_ratio if snapshot.host else None
    if ratio is not None and ratio >= limits.cpu_stall_ratio:
        yield _slow(CPU, f"processes wait for a CPU for {ratio:.0%} of the time", ratio)


def _slow(rule: str, reason: str, ratio: float) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.WARN,
        action=Action.WATCH,
        repair=Repair.APP,
        reason=reason,
        evidence={"stall_ratio": round(ratio, 3)},
    )


def judge_stuck(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding while processes of the driver's own hang in the kernel."""
    del limits
    stuck = snapshot.host.stuck_processes if snapshot.host else None
    if stuck:
        yield Finding(
            rule=STUCK,
            severity=Severity.CRITICAL,
            action=Action.DRAIN,
            repair=Repair.REBOOT,
            reason=f"{stuck} processes of the driver hang in the kernel (state D)",
            evidence={"stuck_processes": stuck},
        )


def judge_disk(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding while the disk that Ray spills to is nearly full."""
    host = snapshot.host
    if host is None or host.disk_total_bytes <= 0:
        return
    free = host.disk_free_bytes / host.disk_total_bytes
    if free < limits.disk_free_ratio:
        yield Finding(
            rule=DISK,
            severity=Severity.WARN,
            action=Action.WATCH,
            repair=Repair.APP,
            reason=f"the disk that Ray spills to has {free:.1%} free; Ray stops spilling at 5 %",
            evidence={"disk_free_bytes": host.disk_free_bytes},
        )
