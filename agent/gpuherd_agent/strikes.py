"""How often the raylet was lost without our doing, and what that means for the next start. Pure.

A raylet that dies again and again would otherwise be started for ever, each time taking work down with it.
"""

from collections.abc import Sequence
from typing import Final

from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, RayNodeId

WINDOW_S: Final = 600.0
MOST: Final = 3
"""As many losses within WINDOW_S hold the node until a person has looked."""

PAUSE_S: Final = 15.0
"""Pause before the start after the second loss; there is none after the first."""

SPREAD_S: Final = 3.0
"""Starts are spread over this: when a head comes back empty its whole fleet rejoins."""

OWNER: Final = "repair"


def struck(strikes: Sequence[float], boot_s: float) -> tuple[float, ...]:
    """Return the losses that count, with one that is told now; instants of boot time."""
    return (*(at for at in strikes if 0 <= boot_s - at < WINDOW_S), boot_s)


def pause_s(strikes: Sequence[float], chance: RayNodeId) -> float:
    """Return how long to wait before the next start; ``chance`` is a random id of this step."""
    share = int(chance[:4], 16) / 0xFFFF
    return SPREAD_S * share + PAUSE_S * max(0, len(strikes) - 1)


def hold(strikes: Sequence[float], chance: RayNodeId, reason: str, wall: float) -> Hold | None:
    """Return the hold that ends the starts, None while they may go on."""
    if len(strikes) < MOST:
        return None
    return Hold(
        id=HoldId(f"strikes-{chance[-16:]}"),
        owner=OWNER,
        kind=HoldKind.DRAIN,
        reason=f"the raylet was lost {len(strikes)} times in {WINDOW_S / 60:.0f} min, last: {reason}",
        since=wall,
    )
