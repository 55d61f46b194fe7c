"""What a replay cost and how long jobs waited, as one plain mapping for people and machines."""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuherd_sim.replay.run import Outcome
from gpuherd_sim.replay.world import World

_HOUR_S: Final = 3_600.0
CLASSES: Final = (("1 GPU", 1, 1), ("2 to 8 GPUs", 2, 8), ("more than 8 GPUs", 9, 1 << 30))


def report(world: World, outcome: Outcome, *, jobs: int) -> dict[str, object]:
    """Return the figures: waits in seconds by size of job, GPU-hours paid, used and lost, launches, speed."""
    ledger = world.ledger
    waits = {
        name: quantiles([s for gpus, s in ledger.waits if low <= gpus <= high]) for name, low, high in CLASSES
    }
    return {
        "jobs": jobs,
        "unserved": jobs - len(ledger.waits),
        "was_cut": outcome.was_cut,
        "wait_s": quantiles([s for _, s in ledger.waits]),
        "wait_s_by_size": waits,
        "gpu_hours": {
            "paid": round(ledger.paid / _HOUR_S, 1),
            "used": round(ledger.used / _HOUR_S, 1),
            "lost": round(ledger.lost / _HOUR_S, 2),
        },
        "launches": ledger.launches,
        "launches_never_used": ledger.launches_unused,
        "faults_met": ledger.faults_met,
        "attempts_failed": ledger.attempts_failed,
        "days": round(outcome.ended_at / 86_400, 2),
        "decisions": outcome.decisions,
        "decisions_per_s": round(outcome.decisions / outcome.decided_s) if outcome.decided_s else None,
        "took_s": round(outcome.wall_s, 2),
    }


def quantiles(waits: Sequence[float]) -> Mapping[str, float] | None:
    """Return p50, p90, p99 and the mean; None without any job."""
    if not waits:
        return None
    ordered = sorted(waits)
    found = {f"p{p}": round(ordered[min(len(ordered) - 1, len(ordered) * p // 100)], 1) for p in (50, 90, 99)}
    return {**found, "mean": round(sum(ordered) / len(ordered), 1)}
