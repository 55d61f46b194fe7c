"""What people want of the whole herd for a time: a pause, and the size of a pool. Pure.

Each ends by itself: what was set in one night's trouble and forgotten does not steer the next week.
Instants are wall-clock seconds, since people give and read them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.names import PoolName

LONGEST_S: Final = 7 * 86_400.0
"""No wish stands longer: a week off, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants it, why, and until when."""

    by: str
    since: float
    until: float
    reason: str = ""

    @property
    def words(self) -> str:
        """Return who and why, such as ``by user:ann: new driver``."""
        return f"by {self.by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A pool serves with exactly so many nodes, whatever demand and triggers ask."""

    pool: PoolName
    nodes: int
    wish: Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """All that stand. While ``pause`` does, plans are made and shown, and none is carried out."""

    pause: Wish | None = None
    sizes: tuple[Size, ...] = ()

    def size(self, pool: PoolName) -> Size | None:
        """Return the size that was set for a pool."""
        return next((size for size in self.sizes if size.pool == pool), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One wish that is over: the kind of its event, and what to say of it."""

    kind: str
    text: str


def with_size(wishes: Wishes, pool: PoolName, size: Size | None) -> Wishes:
    """Return the wishes with this size of the pool in place of any other; None = with none."""
    others = tuple(each for each in wishes.sizes if each.pool != pool)
    return replace(wishes, sizes=others if size is None else (*others, size))


def standing(wishes: Wishes, wall: float) -> Wishes:
    """Return those that are not over at ``wall``."""
    paused = wishes.pause is not None and wall < wishes.pause.until
    sizes = tuple(size for size in wishes.sizes if wall < size.wish.until)
    return Wishes(pause=wishes.pause if paused else None, sizes=sizes)


def ended(before: Wishes, after: Wishes) -> Iterator[Ended]:
    """Yield what of ``before`` does not stand in ``after``."""
    if before.pause is not None and after.pause is None:
        yield Ended(kind="pause.ended", text=f"the pause {before.pause.words} is over")
    for size in before.sizes:
        if after.size(size.pool) is None:
            text = f"pool {size.pool} follows demand again; {size.nodes} nodes were set {size.wish.words}"
            yield Ended(kind="size.ended", text=text)
