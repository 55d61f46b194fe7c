"""Phases of a node as its own agent sees it, and the wider life cycle as the fleet sees it."""

import enum


class Phase(enum.StrEnum):
    """Where a node stands towards Ray; the agent's membership table moves it."""

    OUTSIDE = "outside"
    VERIFYING = "verifying"
    READY = "ready"
    JOINING = "joining"
    MEMBER = "member"
    DRAINING = "draining"
    LEAVING = "leaving"


class Lifecycle(enum.StrEnum):
    """Where a node stands in the fleet, beyond what its agent can say of itself."""

    STANDBY = "standby"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    JOINING = "joining"
    SERVING = "serving"
    DRAINING = "draining"
    LEAVING = "leaving"
    QUARANTINED = "quarantined"
    REPAIRING = "repairing"
    FAILED = "failed"
    LOST = "lost"
    UNREACHABLE = "unreachable"
    MISSING = "missing"
    """Listed in a pool, and never heard of."""
    RETIRED = "retired"
