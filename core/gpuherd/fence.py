"""The fence of desired documents: which of two writers, or of two versions, a node obeys.

A node obeys a document only when its (term, generation) is above the stored one. Pure; the store and
the broker live elsewhere.
"""

import enum
from dataclasses import dataclass
from typing import Final

MAX_TERM_STEP: Final = 1_000
"""A term further ahead is taken for a wrong clock or a forgery: obeying it would deafen the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Position of one desired document; ``digest`` tells documents of equal position apart."""

    term: int
    generation: int
    digest: str


class Ruling(enum.StrEnum):
    """What becomes of an offered document."""

    ACCEPT = "accept"
    SAME = "same"
    OLDER = "older"
    TWO_WRITERS = "two_writers"
    TERM_BOMB = "term_bomb"


def judge(stored: Mark | None, offered: Mark) -> Ruling:
    """Return what to do with ``offered`` when ``stored`` was obeyed last (None = never any).

    Without a stored document any term is taken: there is nothing to measure the step from.
    """
    if stored is None:
        return Ruling.ACCEPT
    have, got = (stored.term, stored.generation), (offered.term, offered.generation)
    if got < have:
        return Ruling.OLDER
    if got == have:
        return Ruling.SAME if offered.digest == stored.digest else Ruling.TWO_WRITERS
    if offered.term - stored.term > MAX_TERM_STEP:
        return Ruling.TERM_BOMB
    return Ruling.ACCEPT
