"""A user's program for tests that keeps a node from being empty, in one of five ways, until it is ended."""

import argparse
import signal
import sys
import time
from pathlib import Path

import ray
from ray.util.placement_group import placement_group


def train(seconds: float) -> None:
    time.sleep(seconds)


class Trainer:
    def ready(self) -> bool:
        return True


class Checkpointing:
    """Writes its checkpoint when it is told to end, which takes it ``seconds``."""

    def fit(self, out: str, seconds: float) -> None:
        told: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        Path(out).with_suffix(".fits").touch()
        while not told:
            time.sleep(0.05)
        time.sleep(seconds)
        Path(out).write_text("saved")
        sys.exit(0)


def produce() -> bytes:
    return b"x" * 10_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", required=True)
    parser.add_argument("--on", required=True, help="id of the node")
    parser.add_argument("--kind", required=True)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=0.0)
    given = parser.parse_args()
    ray.init(address=given.head, log_to_driver=False, include_dashboard=False)
    selector = {"ray.io/node-id": given.on}
    options = {"num_cpus": 0, "num_gpus": 0, "label_selector": selector, "max_retries": 0}
    kept: list[object] = []
    match given.kind:
        case "task":
            kept.append(ray.remote(train).options(**{**options, "num_gpus": 1}).remote(600.0))
            time.sleep(2.0)
        case "actor":
            options.pop("max_retries")
            actor = ray.remote(Trainer).options(**{**options, "num_gpus": 1}).remote()
            kept.append(actor)
            ray.get(actor.ready.remote())
        case "checkpoint":
            options.pop("max_retries")
            actor = ray.remote(Checkpointing).options(**{**options, "num_gpus": 1}).remote()
            kept += [actor, actor.fit.remote(given.out, given.seconds)]
            while not Path(given.out).with_suffix(".fits").exists():
                time.sleep(0.1)
        case "placement group":
            group = placement_group([{"GPU": 1}], bundle_label_selector=[selector])
            kept.append(group)
            ray.get(group.ready(), timeout=60)
        case "objects":
            ref = ray.remote(produce).options(**options).remote()
            kept.append(ref)
            ray.wait([ref], fetch_local=False)
    Path(given.ready).touch()
    signal.pause()


if __name__ == "__main__":
    main()
