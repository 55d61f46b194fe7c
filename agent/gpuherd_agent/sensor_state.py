"""How a sensor beside the GPU driver stands: what it can do here, and how its last look went."""

import enum
from dataclasses import dataclass


class SensorOutcome(enum.StrEnum):
    """How a sensor's last look ended; everything but OK, and LATE for a while, leaves no reading."""

    OK = "ok"
    ABSENT = "absent"
    """This host has no such thing: no InfiniBand, no pressure figures, no driver."""
    DENIED = "denied"
    """It is there and the agent may not read it."""
    FAILED = "failed"
    LATE = "late"
    """It has not come back within its deadline. None is begun beside it; the last reading ages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorState:
    """One sensor: what it can do here, how long its last look took, and what became of it."""

    name: str
    outcome: SensorOutcome
    why: str = ""
    """In words for people; empty when the outcome is OK."""
    took_s: float = 0.0
    """How long the last look that ended took; of a late one, how long it has been under way."""
    failures_total: int = 0
    """Looks that ended DENIED or FAILED, or were LATE, since the agent's start."""
