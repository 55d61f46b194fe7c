"""GPU memory: held by nobody, or less of it than there was. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

LEAKED: Final = "memory_leaked"
SHRUNK: Final = "memory_shrunk"
GHOST: Final = "memory_ghost_process"
FULL: Final = "memory_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.memory]``."""

    leaked_bytes: int = 2**30
    """Memory in use without any process that is borne. Lower raises it for the driver's own use."""
    shrunk_ratio: float = 0.99
    """Share of its first reading that the memory must keep."""
    full_ratio: float = 0.98
    """Share in use from which people are told. Frameworks take nearly all of it by design."""


def has_use(gpu: GpuReading) -> bool:
    """Say whether this reading tells what is in use, and by whom."""
    return gpu.used_bytes is not None and gpu.pids is not None


def has_total(gpu: GpuReading) -> bool:
    """Say whether this reading tells how much memory there is."""
    return gpu.total_bytes is not None


def judge_leaked(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with much memory in use and no process; unknown processes = silent."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.used_bytes is None or gpu.pids != () or gpu.used_bytes <= limits.leaked_bytes:
            continue
        yield Finding(
            rule=LEAKED,
            severity=Severity.DEGRADED,
            action=Action.CORDON,
            repair=Repair.RESET_GPU,
            reason=f"{gpu.used_bytes / 2**30:.1f} GiB in use on GPU {gpu.gpu} and no process holds it",
            gpu=gpu.gpu,
            evidence={"used_bytes": gpu.used_bytes},
        )


def judge_shrunk(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that has less memory than when it was first seen."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        first = snapshot.total_bytes_baseline.get(gpu.gpu)
        if gpu.total_bytes is None or first is None or gpu.total_bytes >= first * limits.shrunk_ratio:
            continue
        yield Finding(
            rule=SHRUNK,
            severity=Severity.DEGRADED,
            action=Action.CORDON,
            repair=Repair.INSPECT,
            reason=f"GPU {gpu.gpu} has {gpu.total_bytes} bytes of memory, and had {first}",
            gpu=gpu.gpu,
            evidence={"total_bytes": gpu.total_bytes, "first_bytes": first},
        )


def judge_ghost(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose driver lists processes that are no more."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.ghost_pids:
            yield Finding(
                rule=GHOST,
                severity=Severity.DEGRADED,
                action=Action.WATCH,
                repair=Repair.RESET_GPU,
                reason=f"GPU {gpu.gpu} is held by processes that are gone: {_listed(gpu.ghost_pids)}",
                gpu=gpu.gpu,
                evidence={"ghosts": len(gpu.ghost_pids)},
            )


def judge_full(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose memory is nearly all in use."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if not gpu.total_bytes or gpu.used_bytes is None:
            continue
        ratio = (gpu.used_bytes + (gpu.reserved_bytes or 0)) / gpu.total_bytes
        if ratio > limits.full_ratio:
            yield Finding(
                rule=FULL,
                severity=Severity.OK,
                action=Action.NONE,
                repair=Repair.APP,
                reason=f"{ratio:.0%} of the memory of GPU {gpu.gpu} is in use",
                gpu=gpu.gpu,
                evidence={"used_bytes": gpu.used_bytes},
            )


def _listed(pids: tuple[int, ...]) -> str:
    return ", ".join(str(pid) for pid in pids[:5]) + (" and more" if len(pids) > 5 else "")  # noqa: PLR2004
