"""Words for what the nodes conclude of each other."""

import enum


class Verdict(enum.Enum):
    """What at least Q current accusations make of a member."""

    ALIVE = "alive"
    """Nobody, or fewer than Q, accuse it."""
    STALLED = "stalled"
    """Its kernel completes handshakes and its agent does not answer; never becomes ``failed``."""
    AGENT_DEAD = "agent_dead"
    """Its host refuses: the agent's process is gone. Says nothing of Ray or of capacity."""
    UNREACHABLE = "unreachable"
    """Neither the agent nor the kernel answers."""
    FAILED = "failed"
    """``agent_dead`` or ``unreachable`` for max(8 s, 4 log10 E s)."""
    LEFT = "left"
    """It said itself that it goes."""


class Kind(enum.Enum):
    """What an accuser saw; values travel in records."""

    REFUSED = 1
    STALLED = 2
    SILENT = 3


class Role(enum.Enum):
    """How far this node's own view can be trusted."""

    JOINING = "joining"
    """It has heard no member yet, and expects others."""
    ACTIVE = "active"
    MINORITY = "minority"
    """Its last roll call reached at most half of E: it accuses nobody and derives nothing."""
    ISOLATED = "isolated"
    """It hears nobody."""
    OBSERVER = "observer"
    """It follows and has no voice: by its nature, or since the roster does not name it."""
    RETIRED = "retired"
    """It left, or a newer run took its name."""
