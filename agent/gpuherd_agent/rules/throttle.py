"""Clocks held down: by heat, by the power supply, or for no reason at all. Pure.

Being power capped or idle is normal and never a finding. Shares are of looks, not of one instant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

HARDWARE: Final = "throttle_hardware"
POWER_BRAKE: Final = "throttle_power_brake"
SOFTWARE: Final = "throttle_software"
SLOW: Final = "throttle_without_reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.throttle]``: shares of looks from 0 to 1."""

    hardware_ratio: float = 0.1
    """Of 10 minutes. Lower also tells of single hot seconds."""
    power_brake_ratio: float = 0.6
    """Of 5 minutes. A brake at a power-on or a load step is short."""
    software_ratio: float = 0.5
    """Of 30 minutes. Dense hosts run near their thermal target by design."""
    slow_ratio: float = 0.9
    """Of 10 minutes, while the GPU is busy."""


def has_reasons(gpu: GpuReading) -> bool:
    """Say whether the driver tells why clocks are held down."""
    return gpu.hw_slowdown is not None


def judge_hardware(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that its own hardware slowed down for much of ten minutes."""
    for gpu, trend in snapshot.trends.items():
        ratio = trend.hw_slowdown_ratio
        if ratio is not None and ratio > limits.hardware_ratio:
            yield Finding(
                rule=HARDWARE,
                severity=Severity.DEGRADED,
                action=Action.CORDON,
                repair=Repair.INSPECT,
                reason=f"GPU {gpu} was slowed down by its hardware in {ratio:.0%} of 10 minutes",
                gpu=gpu,
                evidence={"hw_slowdown_ratio": round(ratio, 3)},
            )


def judge_power_brake(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the power supply held down for most of five minutes."""
    for gpu, trend in snapshot.trends.items():
        ratio = trend.power_brake_ratio
        if ratio is not None and ratio >= limits.power_brake_ratio:
            yield Finding(
                rule=POWER_BRAKE,
                severity=Severity.DEGRADED,
                action=Action.CORDON,
                repair=Repair.INSPECT,
                reason=f"GPU {gpu} was held down by the power brake in {ratio:.0%} of 5 minutes",
                gpu=gpu,
                evidence={"power_brake_ratio": round(ratio, 3)},
            )


def judge_software(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the driver slowed down for its heat for half of half an hour."""
    for gpu, trend in snapshot.trends.items():
        ratio = trend.sw_thermal_ratio
        if ratio is not None and ratio > limits.software_ratio:
            yield Finding(
                rule=SOFTWARE,
                severity=Severity.WARN,
                action=Action.WATCH,
                repair=Repair.INSPECT,
                reason=f"GPU {gpu} was slowed down for its heat in {ratio:.0%} of 30 minutes",
                gpu=gpu,
                evidence={"sw_thermal_ratio": round(ratio, 3)},
            )


def judge_slow(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that is busy at a low clock although nothing holds it down."""
    for gpu, trend in snapshot.trends.items():
        ratio = trend.slow_clock_ratio
        if ratio is not None and ratio >= limits.slow_ratio:
            yield Finding(
                rule=SLOW,
                severity=Severity.DEGRADED,
                action=Action.CORDON,
                repair=Repair.INSPECT,
                reason=f"GPU {gpu} is busy below 60 % of its clock for 10 minutes, and nothing says why",
                gpu=gpu,
                evidence={"slow_clock_ratio": round(ratio, 3)},
            )
