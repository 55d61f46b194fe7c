"""Builders of readings: a healthy GPU, a probe cycle, a look."""

from collections.abc import Sequence

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, LostHandle, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.sightings import Sightings

GIB = 2**30


def uuid(index: int) -> GpuUuid:
    return GpuUuid(f"GPU-{index}")


def gpu(index: int = 0, **changed: object) -> GpuReading:
    """Return a healthy idle GPU with these fields changed."""
    fields: dict[str, object] = {
        "gpu": uuid(index),
        "index": index,
        "pci_bus_id": f"00000000:{index:02X}:00.0",
        "core_celsius": 45.0,
        "slowdown_celsius": 89.0,
        "shutdown_celsius": 95.0,
        "memory_celsius": 50.0,
        "memory_max_celsius": 95.0,
        "used_bytes": 0,
        "total_bytes": 80 * GIB,
        "ecc_uncorrected_volatile_total": 0,
        "recovery_action": 0,
        "pids": (),
    }
    return GpuReading(**{**fields, **changed})  # type: ignore[arg-type]  # names are GpuReading's


def cycle(
    *gpus: GpuReading, lost: Sequence[int] = (), code: int = 15, counted: int | None = None
) -> ProbeReading:
    """Return a cycle that read these GPUs; ``lost`` are indexes without a handle."""
    return ProbeReading(
        outcome=ProbeOutcome.OK,
        gpus=gpus,
        lost=tuple(LostHandle(index=i, code=code) for i in lost),
        counted=len(gpus) + len(lost) if counted is None else counted,
    )


def failed(outcome: ProbeOutcome, *, missed: int = 0, code: int | None = None) -> ProbeReading:
    """Return a cycle that read nothing."""
    return ProbeReading(outcome=outcome, missed=missed, code=code)


def look(
    probe: ProbeReading, *, at: float = 0.0, declared: int | None = None, before: Sightings | None = None
) -> Snapshot:
    """Return a look; without ``declared`` the host has as many GPUs as the driver counts."""
    wanted = (probe.counted or 0) if declared is None else declared
    return (before or Sightings()).take(probe=probe, declared=wanted, now=at)
