"""Counters and flags of GPUs over minutes, as rates and shares. Pure memory; time is the look's.

Looks are kept at ten-second steps: 30 minutes of 8 GPUs are 1,440 small values.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, ProbeOutcome, ProbeReading, SlowLooks, Trend

STEP_S: Final = 10.0
KEPT: Final = 180
SLOW_LOOK_S: Final = 1.0
BUSY_RATIO: Final = 0.8
LOW_CLOCK_RATIO: Final = 0.6
_SLOW_WINDOW_S: Final = 600.0
_COUNT_MAX: Final = 2**63
"""A count at or above it is a value that was not read (all ones), not errors."""
_LEAST_RATIO: Final = 0.9
"""A share or rate is told once this much of its window was watched."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    corrected: int | None
    replays: int | None
    link_errors: int | None
    hw_slowdown: bool | None
    power_brake: bool | None
    sw_thermal: bool | None
    slow_clock: bool | None


@dataclass(slots=True)
class Trends:
    """Feed every look in; ask what it came to."""

    _samples: dict[GpuUuid, deque[_Sample]] = field(default_factory=dict)
    _slow: deque[tuple[float, bool]] = field(default_factory=deque)

    def take(self, probe: ProbeReading, now: float) -> dict[GpuUuid, Trend]:
        """Note the look and return each GPU's trend; a repeated failure is no look."""
        if not probe.is_repeat and probe.outcome is not ProbeOutcome.STARTING:
            is_slow = probe.outcome is not ProbeOutcome.OK or probe.duration_s > SLOW_LOOK_S
            self._slow.append((now, is_slow))
        while self._slow and now - self._slow[0][0] > _SLOW_WINDOW_S:
            self._slow.popleft()
        for reading in probe.gpus:
            kept = self._samples.setdefault(reading.gpu, deque(maxlen=KEPT))
            if not kept or now - kept[-1].at >= STEP_S:
                kept.append(_sample(reading, now))
        return {gpu: _trend(samples, now) for gpu, samples in self._samples.items()}

    def slow_looks(self) -> SlowLooks:
        """Return how the driver answered lately."""
        return SlowLooks(looks=len(self._slow), slow=sum(slow for _, slow in self._slow))


def _sample(gpu: GpuReading, now: float) -> _Sample:
    return _Sample(
        at=now,
        corrected=_count(gpu.ecc_corrected_volatile_total),
        replays=_count(gpu.pcie_replays_total),
        link_errors=_count(gpu.nvlink_errors_total),
        hw_slowdown=gpu.hw_slowdown,
        power_brake=gpu.power_brake,
        sw_thermal=gpu.sw_thermal,
        slow_clock=_has_slow_clock(gpu),
    )


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < _COUNT_MAX else None


def _has_slow_clock(gpu: GpuReading) -> bool | None:
    clock, most, busy = gpu.sm_clock_hertz, gpu.sm_clock_max_hertz, gpu.utilisation_ratio
    if clock is None or most is None or busy is None or gpu.hw_slowdown is None:
        return None
    has_reason = bool(gpu.hw_slowdown or gpu.power_brake or gpu.sw_thermal)
    return busy > BUSY_RATIO and clock < LOW_CLOCK_RATIO * most and not has_reason


def _trend(samples: deque[_Sample], now: float) -> Trend:
    return Trend(
        corrected_per_s=_rate(samples, now, 300.0, lambda s: s.corrected),
        hw_slowdown_ratio=_share(samples, now, 600.0, lambda s: s.hw_slowdown),
        power_brake_ratio=_share(samples, now, 300.0, lambda s: s.power_brake),
        sw_thermal_ratio=_share(samples, now, 1_800.0, lambda s: s.sw_thermal),
        slow_clock_ratio=_share(samples, now, 600.0, lambda s: s.slow_clock),
        replays_per_min=_per_minute(_rate(samples, now, 60.0, lambda s: s.replays)),
        nvlink_errors_per_min=_per_minute(_rate(samples, now, 60.0, lambda s: s.link_errors)),
    )


def _within(samples: Iterable[_Sample], now: float, window_s: float) -> list[_Sample]:
    return [s for s in samples if now - s.at <= window_s]


def _rate(
    samples: deque[_Sample], now: float, window_s: float, of: Callable[[_Sample], int | None]
) -> float | None:
    """Return the rise a second over the window; a counter that went back was reset, and begins anew."""
    values = [(s.at, v) for s in _within(samples, now, window_s) if (v := of(s)) is not None]
    if not values or now - values[0][0] < _LEAST_RATIO * window_s - STEP_S:
        return None
    span_s = values[-1][0] - values[0][0]
    rise = sum(max(0, b - a) for (_, a), (_, b) in itertools.pairwise(values))
    return rise / span_s if span_s > 0 else None


def _share(
    samples: deque[_Sample], now: float, window_s: float, of: Callable[[_Sample], bool | None]
) -> float | None:
    flags = [(s.at, v) for s in _within(samples, now, window_s) if (v := of(s)) is not None]
    if not flags or now - flags[0][0] < _LEAST_RATIO * window_s - STEP_S:
        return None
    return sum(v for _, v in flags) / len(flags)


def _per_minute(per_s: float | None) -> float | None:
    return None if per_s is None else per_s * 60.0
