"""A scenario on disk: replaced atomically while readers run, with a plain copy for the C library."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuherd_sim.gpus.scenario import Scenario, Value, parse
from gpuherd_sim.gpus.scenario import dump as _dump

VARIABLE: Final = "GPUHERD_GPU_SCENARIO"
"""Environment variable that names the scenario file for both readers."""


def write_scenario(path: Path, scenario: Scenario) -> Scenario:
    """Put the scenario at ``path`` and its plain copy at ``path`` + ``.state``; return it as written.

    The time line of a scenario without a start begins now. Each file is replaced in one step, so a
    reader sees the old or the new one; to change a running host, write an altered scenario again.
    """
    if scenario.started_at is None:
        scenario = replace(scenario, started_at=time.clock_gettime(time.CLOCK_BOOTTIME))
    _replace(path, _dump(scenario))
    _replace(state_path(path), render(scenario))
    return scenario


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in the file; raises OSError and ConfigInvalid."""
    return parse(path.read_text(encoding="utf-8"))


def state_path(path: Path) -> Path:
    """Return where the plain copy lies."""
    return path.with_name(path.name + ".state")


def render(scenario: Scenario) -> str:
    """Return lines ``SECOND KEY VALUE`` after one ``started BOOT_SECONDS``, in order of precedence."""
    lines = [f"started {scenario.started_at or 0.0:.6f}"]
    lines += [f"{s.at_s!r} {s.key} {_plain(s.value)}" for s in scenario.every_setting()]
    return "\n".join(lines) + "\n"


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
