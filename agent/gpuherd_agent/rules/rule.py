"""What a rule is: one hazard, its limits, and how its findings are raised and cleared."""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuherd.health import Finding
from gpuherd_agent.readings import GpuReading, ProbeOutcome, Snapshot


class Sensor(enum.Enum):
    """Whose look a rule judges: its findings are raised and cleared by looks of that sensor."""

    PROBE = "probe"
    HOST = "host"
    KERNEL = "kernel"
    DEVICES = "devices"
    RAY = "ray"
    PORTS = "ports"
    MOUNTS = "mounts"


class Scope(enum.StrEnum):
    """What a finding is about."""

    GPU = "gpu"
    NODE = "node"
    FABRIC = "fabric"


def is_always_read(gpu: GpuReading) -> bool:
    """Say yes: the rule needs of a GPU only that it was there."""
    del gpu
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One hazard.

    A finding stands once ``raise_n`` of the last ``raise_m`` looks had it. It ends after ``clear_k`` looks
    without it in a row that span ``clear_hold_s``, or, when ``latched``, only by a person. ``enforce`` False
    = it is told and leads to no act.

    Only a look that could have had the finding counts as one without it: the probe cycle must have ended as
    one of ``cleared_by``, and the GPU in question must satisfy ``is_read``.
    """

    name: str
    covers: tuple[str, ...] = ()
    """Ids of the catalogue of hazards (docs/guide/health.md) that it stands for."""
    sensor: Sensor = Sensor.PROBE
    scope: Scope = Scope.GPU
    limits: Any
    """An instance of the rule's own Limits."""
    judge: Callable[[Snapshot, Any], Iterator[Finding]]
    raise_n: int = 1
    raise_m: int = 1
    clear_k: int = 3
    clear_hold_s: float = 0.0
    latched: bool = False
    enforce: bool = False
    cleared_by: frozenset[ProbeOutcome] = frozenset({ProbeOutcome.OK})
    is_read: Callable[[GpuReading], bool] = is_always_read
    runbook: str
    """Page under docs/runbook."""
    source: str
