"""The node's way into Ray and out of it, as a table. Events come from policy, never from here."""

import enum
from typing import Final

from gpuherd.phases import Phase


class Event(enum.StrEnum):
    """What has become of the node's membership."""

    ADMITTED = "admitted"
    PASSED = "passed"
    REFUSED = "refused"
    FOUND = "found"
    FOUND_DRAINING = "found_draining"
    START_FAILED = "start_failed"
    ALIVE = "alive"
    NOT_ALIVE = "not_alive"
    DRAIN_TAKEN = "drain_taken"
    DRAIN_REFUSED = "drain_refused"
    RAYLET_GONE = "raylet_gone"
    TIME_OVER = "time_over"
    STOPPED = "stopped"


#: (phase, event) -> next phase. A pair that is absent is ignored on purpose: an answer may come late.
#: READY has no row yet: the gang barrier brings it.
TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.OUTSIDE, Event.ADMITTED): Phase.VERIFYING,
    (Phase.OUTSIDE, Event.FOUND): Phase.JOINING,
    (Phase.OUTSIDE, Event.FOUND_DRAINING): Phase.DRAINING,
    (Phase.VERIFYING, Event.PASSED): Phase.JOINING,
    (Phase.VERIFYING, Event.REFUSED): Phase.OUTSIDE,
    (Phase.JOINING, Event.ALIVE): Phase.MEMBER,
    (Phase.JOINING, Event.START_FAILED): Phase.OUTSIDE,
    (Phase.JOINING, Event.NOT_ALIVE): Phase.LEAVING,
    (Phase.JOINING, Event.RAYLET_GONE): Phase.LEAVING,
    (Phase.MEMBER, Event.DRAIN_TAKEN): Phase.DRAINING,
    (Phase.MEMBER, Event.NOT_ALIVE): Phase.LEAVING,
    (Phase.MEMBER, Event.RAYLET_GONE): Phase.LEAVING,
    (Phase.DRAINING, Event.DRAIN_REFUSED): Phase.MEMBER,
    (Phase.DRAINING, Event.NOT_ALIVE): Phase.LEAVING,
    (Phase.DRAINING, Event.RAYLET_GONE): Phase.LEAVING,
    (Phase.DRAINING, Event.TIME_OVER): Phase.LEAVING,
    (Phase.LEAVING, Event.STOPPED): Phase.OUTSIDE,
}


def after(phase: Phase, event: Event) -> Phase:
    """Return the phase that follows; the same one when the event means nothing there."""
    return TRANSITIONS.get((phase, event), phase)
