"""Temperature against the driver's own thresholds, never against ours: boards differ. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

CORE: Final = "temperature_core"
MEMORY: Final = "temperature_memory"
SENSOR: Final = "temperature_sensor"

_LEAST: Final = 1.0
_MOST: Final = 150.0
"""Readings outside are a broken sensor (0 and 255 occur), not a temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.temperature]``, in degrees below the driver's threshold."""

    watch_margin_celsius: float = 5.0
    """Above 0. Wider warns earlier, also of boards that are built to run near their limit."""
    shutdown_margin_celsius: float = 3.0
    """How near to the point where the board turns itself off the node is evicted."""


def has_core(gpu: GpuReading) -> bool:
    """Say whether this reading has a core temperature that can be true, and something to hold it against."""
    against = (gpu.margin_celsius, gpu.slowdown_celsius, gpu.shutdown_celsius)
    return _is_plausible(gpu.core_celsius) and any(limit is not None for limit in against)


def has_memory(gpu: GpuReading) -> bool:
    """Say whether this reading has a memory temperature that can be true, and its limit."""
    return _is_plausible(gpu.memory_celsius) and gpu.memory_max_celsius is not None


def has_sensor(gpu: GpuReading) -> bool:
    """Say whether the core's sensor was read at all."""
    return gpu.core_celsius is not None


def judge_core(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield the worst band that each GPU's core is in; a board without thresholds yields nothing."""
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        yield from _core(gpu, limits)


def _core(gpu: GpuReading, limits: Limits) -> Iterator[Finding]:
    if not _is_plausible(gpu.core_celsius):
        return
    left = gpu.margin_celsius
    if left is None and gpu.slowdown_celsius is not None and gpu.core_celsius is not None:
        left = gpu.slowdown_celsius - gpu.core_celsius
    to_shutdown = (
        None
        if gpu.shutdown_celsius is None or gpu.core_celsius is None
        else gpu.shutdown_celsius - gpu.core_celsius
    )
    if to_shutdown is not None and to_shutdown <= limits.shutdown_margin_celsius:
        yield _hot(gpu, Severity.CRITICAL, Action.EVICT, f"{to_shutdown:.0f} °C below shutdown")
    elif left is not None and left <= 0:
        yield _hot(gpu, Severity.DEGRADED, Action.DRAIN, "beyond the driver's slowdown threshold")
    elif left is not None and left <= limits.watch_margin_celsius:
        yield _hot(gpu, Severity.WARN, Action.WATCH, f"{left:.0f} °C below slowdown")


def _hot(gpu: GpuReading, severity: Severity, action: Action, words: str) -> Finding:
    return Finding(
        rule=CORE,
        severity=severity,
        action=action,
        repair=Repair.INSPECT,
        reason=f"core of GPU {gpu.gpu} at {gpu.core_celsius:.0f} °C, {words}",
        gpu=gpu.gpu,
        evidence={"core_celsius": gpu.core_celsius or 0.0},
    )


def judge_memory(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose memory is above the driver's limit for it."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        now, most = gpu.memory_celsius, gpu.memory_max_celsius
        if now is None or most is None or not _is_plausible(now) or now <= most:
            continue
        yield Finding(
            rule=MEMORY,
            severity=Severity.DEGRADED,
            action=Action.CORDON,
            repair=Repair.INSPECT,
            reason=f"memory of GPU {gpu.gpu} at {now:.0f} °C, above its limit of {most:.0f} °C",
            gpu=gpu.gpu,
            evidence={"memory_celsius": now, "memory_max_celsius": most},
        )


def judge_sensor(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose core temperature cannot be true: unknown, neither good nor bad."""
    del limits
    for gpu in snapshot.probe.gpus if snapshot.probe else ():
        if gpu.core_celsius is not None and not _is_plausible(gpu.core_celsius):
            yield Finding(
                rule=SENSOR,
                severity=Severity.UNKNOWN,
                action=Action.WATCH,
                repair=Repair.INSPECT,
                reason=f"GPU {gpu.gpu} reports {gpu.core_celsius:g} °C, which cannot be true",
                gpu=gpu.gpu,
            )


def _is_plausible(celsius: float | None) -> bool:
    return celsius is not None and math.isfinite(celsius) and _LEAST <= celsius <= _MOST
