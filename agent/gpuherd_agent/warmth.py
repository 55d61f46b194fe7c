"""When a join is rehearsed, and how long what was found out then stands in for asking once more. Pure.

A node that waits outside makes the checks of a join now and then: an obstacle is known before the node is
needed, and little is left to do once it is.
"""

from typing import Final

from gpuherd_agent.station import Facts, Station

FIRST_S: Final = 2.0
"""So long a node has been outside before its first rehearsal."""

EVERY_S: Final = 60.0
"""Each asks the head by a helper process, a quarter of a second of one core."""

HEAD_S: Final = 90.0
"""The head's versions and session, if its port still answers: above EVERY_S, or they would never be warm."""

SMOKE_AGAIN_S: Final = 600.0
"""A rehearsal puts a GPU to smoke work again after this, if nobody holds the node or uses the GPU."""

SMOKE_S: Final = 900.0
"""A GPU that has passed so long ago, and has not served since, is not put to smoke work at the join."""


def is_time(station: Station, facts: Facts) -> bool:
    """Say whether a node that is outside and shall stay there ought to rehearse now."""
    return facts.now >= max(station.since + FIRST_S, station.rehearsed_at + EVERY_S)


def is_warm(at: float | None, now: float, most_s: float) -> bool:
    """Say whether something that was found out at ``at`` still counts."""
    return at is not None and now - at <= most_s
