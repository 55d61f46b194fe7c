"""Our policy against Ray's own scheduler on a made-up trace with Philly's statistics; JSON on the last line.

Both meet the same jobs, start times and faults. With faults (20 x the rate of Meta's Llama 3 training, so
that weeks show what years would) work lost and waits count; without, GPU-hours and waits. Then 100,000 jobs
under our policy alone, for speed. ``--trace FILE`` takes a real trace instead of the made-up one.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuherd.names import PoolName
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.pools import Pool
from gpuherd_sim.replay import trace
from gpuherd_sim.replay.faults import LLAMA3_PER_NODE_HOUR, FaultModel
from gpuherd_sim.replay.run import Pace
from gpuherd_sim.replay.setup import Case, replay
from gpuherd_sim.replay.synthesis import Wanted, make
from gpuherd_sim.replay.trace import Job

SEEDS = (1, 2, 3)
JOBS = 4_000
JOBS_PER_DAY = 200.0
HOSTS = 40
FAULTS = 20.0
MANY = 100_000
MANY_HOSTS = 140
MANY_PERIOD_S = 60.0
BUDGETS = {"lost": 0.7, "wait_p99": 1.05, "paid": 1.0, "many_s": 60.0}


def limits(hosts: int) -> Limits:
    """Return one pool of hosts with 8 GPUs that may all be off, as for both policies."""
    pool = Pool(
        name=PoolName("a"),
        nodes=(f"gpu-[001-{hosts:03d}]",),
        min=0,
        gpus_per_node=8,
        idle_timeout_s=600.0,
        leaving_max=hosts,
    )
    return Limits(pools=(pool,), join_timeout_s=900.0)


def pair(jobs: Sequence[Job], model: FaultModel, seed: int) -> dict[str, Any]:
    """Return both reports and their ratios, ours to Ray's."""
    case = Case(jobs=jobs, limits=limits(HOSTS), model=model, seed=seed, pace=Pace(wall_limit_s=60.0))
    ours, rays = replay(case, "ours"), replay(case, "ray")
    found: dict[str, Any] = {"seed": seed, "ours": brief(ours), "ray": brief(rays)}
    for key in ("wait_p99", "paid", "lost"):
        theirs = found["ray"][key]
        found[f"ratio_{key}"] = round(found["ours"][key] / theirs, 3) if theirs else None
    return found


def brief(told: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a report that the bench compares."""
    return {
        "wait_p50": told["wait_s"]["p50"],
        "wait_p99": told["wait_s"]["p99"],
        "paid": told["gpu_hours"]["paid"],
        "lost": told["gpu_hours"]["lost"],
        "launches": told["launches"],
        "never_used": told["launches_never_used"],
        "attempts_failed": told["attempts_failed"],
        "unserved": told["unserved"],
        "decisions_per_s": told["decisions_per_s"],
        "took_s": told["took_s"],
    }


def median(rows: Sequence[dict[str, Any]], key: str) -> float:
    """Return the median ratio of the seeds."""
    return round(statistics.median(row[f"ratio_{key}"] for row in rows), 3)


def main() -> int:
    """Run all, print each row as it comes, and the sum on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="CSV with timestamp, num_gpus and duration")
    parser.add_argument("--jobs", type=int, default=JOBS)
    given = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {"sound": [], "faults": []}
    for name, rate in (("sound", 0.0), ("faults", FAULTS * LLAMA3_PER_NODE_HOUR)):
        for seed in SEEDS:
            jobs = (
                trace.cut(trace.read(given.trace), most=given.jobs)
                if given.trace
                else make(Wanted(jobs=given.jobs, gpus_max=32, jobs_per_day=JOBS_PER_DAY), seed=seed)
            )
            row = pair(jobs, FaultModel(per_node_hour=rate), seed)
            rows[name].append(row)
            print(name, json.dumps(row), flush=True)
    many = replay(
        Case(
            jobs=make(Wanted(jobs=MANY, gpus_max=32), seed=1),
            limits=limits(MANY_HOSTS),
            pace=Pace(period_s=MANY_PERIOD_S),
        ),
        "ours",
    )
    figures = {
        "faults_lost_ratio": [median(rows["faults"], "lost"), BUDGETS["lost"]],
        "faults_wait_p99_ratio": [median(rows["faults"], "wait_p99"), BUDGETS["wait_p99"]],
        "sound_paid_ratio": [median(rows["sound"], "paid"), BUDGETS["paid"]],
        "sound_wait_p99_ratio": [median(rows["sound"], "wait_p99"), BUDGETS["wait_p99"]],
        "jobs_100000_s": [brief(many)["took_s"], BUDGETS["many_s"]],
    }
    passed = all(figure <= budget for figure, budget in figures.values())
    told = {name: {"figure": figure, "budget": budget} for name, (figure, budget) in figures.items()}
    print(json.dumps({"bench": "replay", "passed": passed, "figures": told}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
