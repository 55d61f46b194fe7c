"""The program of a user: submits waves of Ray tasks that ask for one GPU and no CPU.

Runs as a process of its own, since it is a client of Ray and the demo is not. A wave follows the one
before until the file ``enough`` exists.
"""

import argparse
import time
from pathlib import Path

import ray
import ray.exceptions

from gpuherd.shell.clock import SystemClock
from gpuherd_sim.demo.work import MAX_WAVES, MIN_WAVES, TASK_S, WAVE, append


def compute(number: int, ledger: str) -> int:
    """Note where and when the task starts, and keep the GPU for a while."""
    node = ray.get_runtime_context().get_node_id()
    append(Path(ledger), kind="started", task=number, node=node, at_s=SystemClock().now())
    time.sleep(TASK_S)
    return number


def main() -> None:
    """Submit until it is enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--enough", type=Path, required=True)
    given = parser.parse_args()
    ray.init(address=given.head, log_to_driver=False, include_dashboard=False)
    task = ray.remote(num_gpus=1, num_cpus=0)(compute)
    for wave in range(MAX_WAVES):
        if wave >= MIN_WAVES and given.enough.exists():
            break
        first = wave * WAVE
        left = [task.remote(number, str(given.ledger)) for number in range(first, first + WAVE)]
        append(given.ledger, kind="submitted", count=len(left))
        while left:
            (done,), left = ray.wait(left, num_returns=1)
            try:
                append(given.ledger, kind="finished", task=ray.get(done))
            except ray.exceptions.RayError as error:
                append(given.ledger, kind="failed", why=str(error)[:500])
    append(given.ledger, kind="ended")


if __name__ == "__main__":
    main()
