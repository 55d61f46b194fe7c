"""What a node says of itself: states that change rarely, no counters and no times.

The idle budget pays for about one change in the whole cluster every 11 to 23 s.
"""

import enum
from dataclasses import dataclass

from gpuherd.phases import Phase


class NodeState(enum.Enum):
    """The node's own judgement of its health, in one word; values travel in records."""

    UNKNOWN = 0
    HEALTHY = 1
    DEGRADED = 2
    CRITICAL = 3


class Reach(enum.Enum):
    """Whether the node reaches the head or the broker."""

    UNKNOWN = 0
    REACHED = 1
    LOST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The part of a record that the agent writes; the core adds address, accusations and signature.

    ``reason_bits`` (32 bits) are the agent's; ``versions_hash`` (8 bytes or empty) stands for the versions of
    driver, agent and Ray, so that a drifting node shows. ``in_maintenance`` announces planned work: verdicts
    on the node go on and raise no alarm.
    """

    state: NodeState = NodeState.UNKNOWN
    reason_bits: int = 0
    phase: Phase = Phase.OUTSIDE
    gpus_declared: int = 0
    gpus_present: int = 0
    head: Reach = Reach.UNKNOWN
    broker: Reach = Reach.UNKNOWN
    versions_hash: bytes = b""
    in_maintenance: bool = False
