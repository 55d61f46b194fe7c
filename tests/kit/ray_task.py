"""A user's program for tests: one Ray task on one GPU for a while. Writes its node, then ``finished``."""

import argparse
import time
from pathlib import Path

import ray


def work(out: str, seconds: float) -> str:
    Path(out).write_text(f"{ray.get_runtime_context().get_node_id()}\n")
    time.sleep(seconds)
    return "finished"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--beside", default="", help="Ray's folder of the node to hang on")
    given = parser.parse_args()
    beside = {"_temp_dir": given.beside} if given.beside else {}
    ray.init(address=given.head, log_to_driver=False, include_dashboard=False, **beside)
    task = ray.remote(num_gpus=1, num_cpus=0, max_retries=0)(work)
    said = ray.get(task.remote(given.out, given.seconds))
    with Path(given.out).open("a") as file:
        file.write(f"{said}\n")


if __name__ == "__main__":
    main()
