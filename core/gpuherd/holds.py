"""Holds: reasons not to serve, each with an id, an owner and an end only by that id.

A hold never ends by being absent from a document: late or lost documents must not free a node.
"""

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from gpuherd.names import HoldId, NameInvalid, parse_name
from gpuherd.ranked import Ranked


class HoldKind(Ranked):
    """How strongly a hold acts on the node; the strongest standing one wins."""

    CORDON = "cordon"
    DRAIN = "drain"
    EVICT = "evict"


class OnDeadline(enum.StrEnum):
    """What the agent does with work that is still running when a drain's time is over."""

    WAIT = "wait"
    STOP = "stop"


HEALTH: Final = "health"
SCALER: Final = "scaler"
UPGRADE: Final = "upgrade"
REPAIR: Final = "repair"
_SERVICES: Final = (HEALTH, SCALER, UPGRADE, REPAIR)
_USER: Final = "user:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason not to serve.

    ``since`` is wall-clock seconds and only shown to people. ``for_s`` is the drain's deadline as a
    duration, counted by the node on boot time from its acceptance, so that late delivery or a clock
    jump can only lengthen it; None = no deadline.
    """

    id: HoldId
    owner: str
    kind: HoldKind
    reason: str
    since: float
    for_s: float | None = None
    on_deadline: OnDeadline = OnDeadline.WAIT


def parse_owner(text: str) -> str:
    """Return ``text`` when it is a service's name or ``user:NAME``; raises NameInvalid otherwise."""
    if text in _SERVICES:
        return text
    if text.startswith(_USER):
        parse_name(text.removeprefix(_USER), "user name")
        return text
    raise NameInvalid(f"owner {text[:80]!r} is unknown: use {', '.join(_SERVICES)} or user:NAME")


def user(name: str) -> str:
    """Return the owner that stands for a person, given by name or as an owner already.

    Characters outside the grammar become dashes.
    """
    plain = name.lower().removeprefix(_USER)
    mended = "".join(c if c.isascii() and c.isalnum() else "-" for c in plain).strip("-")[:63].strip("-")
    return _USER + (mended or "unknown")


def is_user(owner: str) -> bool:
    """Say whether a person owns the hold."""
    return owner.startswith(_USER)


def is_planned(hold: Hold) -> bool:
    """Say whether people or a service plan to work on the node: what it then does is no surprise.

    Health's holds are findings, and a cordon leaves the node at its work.
    """
    return hold.kind >= HoldKind.DRAIN and hold.owner not in (HEALTH, SCALER)


def union(*sources: Iterable[Hold], lifted: Collection[HoldId] = ()) -> tuple[Hold, ...]:
    """Return the holds of all sources that no one lifted, strongest first, each id once.

    Of two holds with one id the first source's stands: a document cannot weaken a hold that the node
    itself has stored under that id.
    """
    seen: dict[HoldId, Hold] = {}
    for source in sources:
        for hold in source:
            if hold.id not in lifted:
                seen.setdefault(hold.id, hold)
    return tuple(sorted(seen.values(), key=lambda h: (-h.kind.rank, h.since, h.id)))


def refuse_lift(hold: Hold, by: str) -> str | None:
    """Return why ``by`` may not lift the hold, or None when it may.

    The owner may, and a user may lift any hold but one of health, which only an override ends.
    """
    if by == hold.owner:
        return None
    if is_user(by) and hold.owner != HEALTH:
        return None
    if is_user(by):
        return f"hold {hold.id} is health's ({hold.reason}): it ends when the finding clears"
    return f"hold {hold.id} belongs to {hold.owner}; only its owner or a user may lift it"
