"""News that waits to be spread: one place a member, the newest record in it.

Records that take back an accusation go first (they save a node), then those that accuse, then the rest;
one place of each packet is kept for the rest, so that health is heard during a storm.
"""

import enum
import heapq
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.identity import NameHash


class News(enum.IntEnum):
    """Classes in the order in which they go."""

    RETRACTION = 0
    ACCUSATION = 1
    STATE = 2


@dataclass(slots=True)
class Item:
    """One member's news. ``introduces`` = its identity goes along, since it is new to others."""

    owner: NameHash
    news: News
    number: int
    introduces: bool
    sends: int = 0


class BroadcastQueue:
    """At most one item a member, so its length is bounded by the table."""

    def __init__(self) -> None:
        self._items: dict[NameHash, Item] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, owner: NameHash, news: News, *, introduces: bool) -> None:
        """Spread ``owner``'s record from the start."""
        old = self._items.get(owner)
        self._number += 1
        self._items[owner] = Item(
            owner=owner,
            news=news,
            number=self._number,
            introduces=introduces or (old is not None and old.introduces),
        )

    def drop(self, owner: NameHash) -> None:
        """Spread it no more: a newer version travels by another way."""
        self._items.pop(owner, None)

    def choose(self, count: int) -> tuple[Item, ...]:
        """Return up to ``count`` items to be sent next, the most urgent and least sent ones."""
        if not self._items:
            return ()
        items = self._items.values()
        chosen = heapq.nsmallest(count, items, key=lambda item: (item.news, item.sends, item.number))
        if len(items) > count and chosen[-1].news is not News.STATE:
            rest = min(
                (item for item in items if item.news is News.STATE),
                key=lambda item: (item.sends, item.number),
                default=None,
            )
            if rest is not None:
                chosen[-1] = rest
        return tuple(chosen)

    def sent(self, item: Item, known: int) -> None:
        """Count one packet; an item leaves after 4 ceil(log10(N + 1)) of them."""
        item.sends += 1
        if item.sends >= limits.retransmits(known) and self._items.get(item.owner) is item:
            del self._items[item.owner]
