"""What breaks in a replay and when: drawn once from a seed, so that two policies meet the same faults.

Rates: Llama 3 training on 16,384 H100 for 54 days had 419 unexpected interruptions, 148 by GPUs and 72 by
their memory, all others host, network or software (Meta, "The Llama 3 Herd of Models", 2024, table 5).
"""

import enum
import random
from dataclasses import dataclass
from typing import Final

LLAMA3_PER_NODE_HOUR: Final = 419 / (16_384 / 8 * 54 * 24)
"""Interruptions a node of 8 GPUs and hour: 1.58e-4, about one node in 2,048 every 3 hours."""
LLAMA3_GPU_RATIO: Final = (148 + 72) / 419


class Kind(enum.StrEnum):
    """Of GPU: one GPU fails whatever runs on it, the host stays. Of HOST: the host is gone."""

    GPU = "gpu"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: it meets the host of this index if it is on at that instant, else nothing."""

    at: float
    host: int
    kind: Kind
    gpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """From ``since`` until ``until`` no start succeeds (``capacity``) or the head is silent (``metrics``)."""

    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """How often things break and how long they take. Zero rates = nothing breaks."""

    per_node_hour: float = 0.0
    gpu_ratio: float = LLAMA3_GPU_RATIO
    shows_s: float = 60.0
    """How long work runs on a sick GPU until it dies: start-up, then the first CUDA call."""
    noticed_s: float = 14_400.0
    """How long a sick GPU that no agent watches stays in service until a person takes the host out."""
    verdict_s: float = 2.0
    """How long an agent takes to take the host out (the budget of the reaction bench)."""
    repair_s: float = 14_400.0
    """How long a host is away for its repair."""
    checkpoint_s: float = 3_600.0
    """Work is saved this often; what came after the last one is lost with the job."""
    start_failures_ratio: float = 0.0
    """Starts that never come up."""
    capacity: tuple[Outage, ...] = ()
    metrics: tuple[Outage, ...] = ()


def draw(model: FaultModel, *, hosts: int, horizon_s: float, gpus: int, seed: int) -> tuple[Fault, ...]:
    """Return the faults of a replay in order of time."""
    rng = random.Random(f"faults {seed}")  # noqa: S311  reproducible, nothing secret
    rate_per_s = model.per_node_hour * hosts / 3_600
    found = []
    at = 0.0
    while rate_per_s > 0:
        at += rng.expovariate(rate_per_s)
        if at >= horizon_s:
            break
        kind = Kind.GPU if rng.random() < model.gpu_ratio else Kind.HOST
        found.append(Fault(at=at, host=rng.randrange(hosts), kind=kind, gpu=rng.randrange(gpus)))
    return tuple(found)


def is_within(outages: tuple[Outage, ...], at: float) -> bool:
    """Say whether one of the outages covers the instant."""
    return any(outage.since <= at < outage.until for outage in outages)
