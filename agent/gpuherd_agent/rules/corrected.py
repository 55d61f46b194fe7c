"""Corrected memory errors by their rate: a storm of them stalls drivers and monitors. Pure.

Counts alone say nothing: boards live with millions. The fault that wedged monitors for hours had 4,647 to
17,700 a second (NVSentinel #1748, DCGM #313), and fell to none whenever the GPU was idle.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

RATE: Final = "ecc_corrected_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.corrected]``: errors a second, mean of 5 minutes."""

    watch_per_s: float = 100.0
    """Above it people are told. No vendor gives a rate; single rows seldom make more than some a second."""
    degraded_per_s: float = 1_000.0
    """Above it the GPU gets no new work. The storm that was seen began at 4,600."""


def has_count(gpu: GpuReading) -> bool:
    """Say whether the GPU counts corrected errors and is busy: at rest a storm only pauses."""
    return gpu.ecc_corrected_volatile_total is not None and (gpu.utilisation_ratio or 0.0) > 0.0


def judge(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose corrected errors come too fast."""
    for gpu, trend in snapshot.trends.items():
        rate = trend.corrected_per_s
        if rate is None or rate <= limits.watch_per_s:
            continue
        is_storm = rate > limits.degraded_per_s
        yield Finding(
            rule=RATE,
            severity=Severity.DEGRADED if is_storm else Severity.WARN,
            action=Action.CORDON if is_storm else Action.WATCH,
            repair=Repair.INSPECT,
            reason=f"{rate:,.0f} corrected memory errors a second on GPU {gpu} for 5 minutes",
            gpu=gpu,
            evidence={"corrected_per_s": round(rate, 1)},
        )
