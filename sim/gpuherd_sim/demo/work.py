"""The demo's work as a ledger of lines: written by the driver and its tasks, read by the demo."""

import json
from pathlib import Path
from typing import Final

from gpuherd.names import RayNodeId
from gpuherd_sim.demo.observation import TaskStart, Work

WAVE: Final = 14
"""Tasks a wave: more than one node of 8 GPUs has, fewer than two have."""
TASK_S: Final = 12.0
MIN_WAVES: Final = 2
"""The second wave finds the sick node gone and its replacement at work."""
MAX_WAVES: Final = 20


def append(path: Path, **values: object) -> None:
    """Add one line. Several processes may: a short append is one write (POSIX, O_APPEND)."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def read_work(path: Path) -> Work:
    """Return the tasks so far; no file yet = nothing was submitted."""
    return parse_work(path.read_text(encoding="utf-8")) if path.exists() else Work()


def parse_work(text: str) -> Work:
    """Return the tasks that these lines tell of; a last line without an end is not there yet."""
    submitted = finished = failed = 0
    has_ended = False
    starts: list[TaskStart] = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        entry = json.loads(line)
        match entry["kind"]:
            case "submitted":
                submitted += entry["count"]
            case "started":
                starts.append(
                    TaskStart(task=entry["task"], node=RayNodeId(entry["node"]), at_s=entry["at_s"])
                )
            case "finished":
                finished += 1
            case "failed":
                failed += 1
            case "ended":
                has_ended = True
    return Work(
        submitted=submitted, finished=finished, failed=failed, starts=tuple(starts), has_ended=has_ended
    )
