"""A made-up trace with the statistics of a public one: sizes, durations, arrivals by hour and weekday.

Fitted to counts and quantiles of the Philly trace (Jeon et al., USENIX ATC 2019), 82,247 jobs of 107 days.
The jobs themselves are not here; bursts within an hour follow the quantiles of the gaps between jobs.
"""

import bisect
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuherd_sim.replay.trace import Job, numbered

DAY_S: Final = 86_400
_MONDAY: Final = 0

JOBS_BY_GPUS: Final = {
    1: 76_627, 2: 1_818, 4: 1_870, 8: 1_643, 12: 7, 16: 199, 24: 7, 32: 67, 64: 6, 128: 3,
}  # fmt: skip
_LEVELS: Final = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)
DURATION_S: Final = {
    1: (30, 52, 62, 122, 1_117, 2_716, 8_512, 19_137, 135_404),
    2: (5, 9, 11, 16, 21, 76, 73_625, 197_392, 526_030),
    4: (35, 75, 138, 772, 17_431, 89_422, 184_519, 274_339, 908_661),
    8: (33, 125, 216, 1_871, 23_683, 173_288, 352_409, 525_631, 1_066_894),
    16: (4, 36, 51, 380, 52_548, 167_367, 341_346, 511_238, 1_369_876),
    32: (2, 345, 812, 1_182, 14_262, 53_301, 64_338, 78_004, 128_924),
}
"""Quantiles at the levels above; sizes that are not listed take those of the next smaller one."""
GAP_S: Final = (0, 0, 1, 3, 8, 44, 361, 599, 601)
HOUR_RATIO: Final = (
    0.0531, 0.0410, 0.0466, 0.0460, 0.0292, 0.0480, 0.0697, 0.0870, 0.0462, 0.0419, 0.0427, 0.0362,
    0.0312, 0.0294, 0.0266, 0.0270, 0.0367, 0.0278, 0.0334, 0.0303, 0.0423, 0.0382, 0.0472, 0.0421,
)  # fmt: skip
WEEKDAY_RATIO: Final = (0.1232, 0.1523, 0.1626, 0.1838, 0.2061, 0.0870, 0.0850)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to make. ``jobs_per_day`` is a mean; the largest size is bounded by the fleet it is for."""

    jobs: int
    jobs_per_day: float = 769.0
    """82,247 jobs in 107 days."""
    gpus_max: int = 128
    duration_max_s: float = 14 * DAY_S


def make(wanted: Wanted, *, seed: int) -> tuple[Job, ...]:
    """Return the made-up jobs; equal arguments give equal jobs."""
    rng = random.Random(f"trace {seed}")  # noqa: S311  reproducible, nothing secret
    sizes = [size for size in JOBS_BY_GPUS if size <= wanted.gpus_max]
    weights = [JOBS_BY_GPUS[size] for size in sizes]
    rows = []
    at = 0.0
    stretch = DAY_S / wanted.jobs_per_day / _mean_gap_s()
    for _ in range(wanted.jobs):
        at += _quantile(GAP_S, rng) * stretch / _pace(at)
        size = rng.choices(sizes, weights)[0]
        duration = min(wanted.duration_max_s, max(1.0, _quantile(_durations(size), rng)))
        rows.append((at, size, duration))
    return numbered(rows)


def _durations(gpus: int) -> Sequence[float]:
    return DURATION_S[max(size for size in DURATION_S if size <= gpus)]


def _pace(at: float) -> float:
    """Return how fast jobs come at this instant; 1 = the mean. Day 0 is a Monday."""
    hour = int(at // 3_600) % 24
    weekday = (_MONDAY + int(at // DAY_S)) % 7
    return HOUR_RATIO[hour] * 24 * WEEKDAY_RATIO[weekday] * 7


def _quantile(values: Sequence[float], rng: random.Random) -> float:
    """Return a draw from the distribution with these quantiles, straight lines between them."""
    level = rng.random()
    i = bisect.bisect_left(_LEVELS, level)
    if i == 0:
        return float(values[0])
    if i == len(_LEVELS):
        return float(values[-1])
    share = (level - _LEVELS[i - 1]) / (_LEVELS[i] - _LEVELS[i - 1])
    return values[i - 1] + share * (values[i] - values[i - 1])


def _mean_gap_s() -> float:
    """Return the mean of the fitted gaps: the area under straight lines between the quantiles."""
    mean = GAP_S[0] * _LEVELS[0] + GAP_S[-1] * (1 - _LEVELS[-1])
    for i in range(1, len(_LEVELS)):
        mean += (GAP_S[i - 1] + GAP_S[i]) / 2 * (_LEVELS[i] - _LEVELS[i - 1])
    return mean
