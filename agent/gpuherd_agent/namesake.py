"""Two agents with one name: the newcomer finds out before it says anything, and does not run. Pure.

The newcomer reads the retained ``online`` of its name. If it claims another host, the newcomer asks by
an event; a living namesake answers by telling ``online`` again. No answer = the old one is gone.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.wire.documents import Online

LOOK_S: Final = 1.0
ANSWER_S: Final = 3.0
CLAIM: Final = "claim"
"""Kind of the event by which a newcomer asks."""


class Standing(enum.StrEnum):
    """How sure the agent is that the name is its own."""

    AWAY = "away"
    """No broker was reached yet: nothing can be known, and the node acts on what it has stored."""
    LOOKING = "looking"
    ASKING = "asking"
    SETTLED = "settled"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namesake:
    """What is known of others with this name; ``until`` ends the present standing."""

    host: str
    standing: Standing = Standing.AWAY
    until: float = 0.0
    other: str = ""


def connected(known: Namesake, now: float) -> Namesake:
    """Return what is known once the broker's retained messages begin to arrive."""
    if known.standing is Standing.AWAY:
        return replace(known, standing=Standing.LOOKING, until=now + LOOK_S)
    return known


def heard(known: Namesake, online: Online, *, retained: bool) -> Namesake:
    """Return what is known after an ``online`` document of this name; a last will proves nobody.

    It may arrive before the word that the broker is there: then the look has not begun, and it counts.
    """
    is_settled = known.standing in (Standing.SETTLED, Standing.TAKEN)
    if is_settled or not online.online or online.host == known.host:
        return known
    if not retained:
        return replace(known, standing=Standing.TAKEN, other=online.host)
    if known.standing is Standing.ASKING:
        return known
    return replace(known, other=online.host)


def passed(known: Namesake, now: float) -> Namesake:
    """Return what is known as time passes: looking becomes asking when another host claims the name."""
    if now < known.until:
        return known
    if known.standing is Standing.LOOKING and known.other:
        return replace(known, standing=Standing.ASKING, until=now + ANSWER_S)
    if known.standing in (Standing.LOOKING, Standing.ASKING):
        return replace(known, standing=Standing.SETTLED)
    return known
