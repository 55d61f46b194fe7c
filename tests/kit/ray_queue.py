"""A user's program for tests: an actor that is called for ever, tasks on GPU and CPU that queue behind it.

``--on`` = all of it is for one node. Once the file ``--more`` is there, it begins a task and an actor anew.
"""

import argparse
import time
from pathlib import Path

import ray


def queued(seconds: float) -> None:
    time.sleep(seconds)


def later(seconds: float) -> None:
    time.sleep(seconds)


class Caller:
    def call(self, seconds: float) -> None:
        time.sleep(seconds)


class Server(Caller):
    pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", required=True)
    parser.add_argument("--on", required=True)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--more", required=True)
    given = parser.parse_args()
    ray.init(address=given.head, log_to_driver=False, include_dashboard=False)
    there = {"label_selector": {"ray.io/node-id": given.on}, "num_cpus": 0}
    actor = ray.remote(Caller).options(**there, num_gpus=1).remote()
    ray.get(actor.call.remote(0.0))
    kept = [ray.remote(queued).options(**{**there, "num_gpus": 1}).remote(1.0) for _ in range(60)]
    kept += [ray.remote(queued).options(**{**there, "num_cpus": 1}).remote(0.5) for _ in range(120)]
    time.sleep(3.0)
    Path(given.ready).touch()
    has_more = False
    while True:
        ray.get(actor.call.remote(0.2))
        if not has_more and Path(given.more).exists():
            has_more = True
            for ref in kept:
                ray.cancel(ref, force=True)
            kept = [ray.remote(later).options(**there).remote(600.0)]
            server = ray.remote(Server).options(**there).remote()
            kept.append(server.call.remote(600.0))
        time.sleep(0.1)


if __name__ == "__main__":
    main()
