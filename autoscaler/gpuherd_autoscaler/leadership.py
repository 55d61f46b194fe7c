"""Who leads: a claim of a term in Ray's key-value store, kept by a heartbeat. Pure; time is given.

The store creates a key for exactly one of many claimants. A leader acts for ``LEASE_S`` after it last saw
its claim stand *and* wrote a heartbeat; another takes over after it saw no new heartbeat for ``TAKE_OVER_S``
while the store answered all along. As the second is longer, never do two act. What a process that was stopped
between its last check and its act still sends has the lower term, which every node refuses.
"""

from dataclasses import dataclass, replace
from typing import Final

LEASE_S: Final = 10.0
"""How long a confirmation lets a leader act. Two turns of the loop; longer delays a take-over."""
TAKE_OVER_S: Final = 20.0
"""Silence of a leader until another takes over. At least LEASE_S plus the time of one look."""
GRACE_S: Final = 120.0
"""After a take-over from another scaler nothing is acted on by plan: first the fleet is looked at."""
LOOK_GAP_S: Final = 10.0
"""Two looks further apart did not see the time between them: the silence counts anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The highest claim in the store."""

    term: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of the store, begun at ``at``; ``beat`` is the heartbeat under the claim's term."""

    at: float
    claim: Claim | None
    beat: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """What one scaler knows of who leads. ``term`` 0 = it does not hold one."""

    holder: str
    term: int = 0
    confirmed_at: float | None = None
    acts_from: float | None = None
    """Until then no plan is acted on: the lead was another's, or an empty store hides whose it was."""
    rival: Claim | None = None
    """The claim of another that was seen last."""
    beat: bytes = b""
    silent_since: float | None = None
    """Since when the rival's heartbeat has not changed, the store answering at each look."""
    looked_at: float | None = None


def see(known: Leadership, look: Look) -> Leadership:
    """Return what is known after a look.

    Another's claim as the highest deposes us, even one below our term: then the store was emptied, and the
    other was the first to claim in it.
    """
    claim = look.claim
    if claim is not None and claim.holder != known.holder:
        return _watch(replace(known, term=0, confirmed_at=None), claim, look)
    if known.term:
        return replace(known, looked_at=look.at)
    if claim is None and known.rival is not None:
        # The head lost its store: the leader will claim anew. It is as silent as before.
        return _watch(known, known.rival, replace(look, beat=known.beat))
    return replace(known, rival=None, silent_since=None, looked_at=look.at)


def _watch(known: Leadership, rival: Claim, look: Look) -> Leadership:
    is_seen = known.looked_at is not None and look.at - known.looked_at <= LOOK_GAP_S
    is_same = (rival, look.beat) == (known.rival, known.beat) and known.silent_since is not None
    since = known.silent_since if is_same and is_seen else look.at
    return replace(known, rival=rival, beat=look.beat, silent_since=since, looked_at=look.at)


def blind(known: Leadership) -> Leadership:
    """Return what is known after the store did not answer: no silence was observed, nothing is confirmed."""
    return replace(known, silent_since=None, looked_at=None)


def confirmed(known: Leadership, at: float) -> Leadership:
    """Return that our claim stood and our heartbeat was written after a look begun at ``at``."""
    return replace(known, confirmed_at=at) if known.term else known


def lost(known: Leadership, look: Look) -> bool:
    """Say whether our claim is gone from the store, as after a head that came back empty."""
    return known.term > 0 and look.claim is None


def reclaimed(known: Leadership, at: float) -> Leadership:
    """Return that our lost claim was written anew at ``at``.

    Who was cut off for longer than LEASE_S may have been succeeded before the store was emptied: it waits
    like any other claimant of an empty store.
    """
    was_fresh = known.confirmed_at is not None and at - known.confirmed_at <= LEASE_S
    return known if was_fresh else replace(known, acts_from=at + LEASE_S)


def why_not_bid(known: Leadership, now: float) -> str:
    """Return why no term may be claimed now, or an empty string."""
    if known.looked_at is None:
        return "Ray's head does not answer, so nobody leads"
    if known.term or known.rival is None:
        return ""
    silent_s = 0.0 if known.silent_since is None else now - known.silent_since
    if silent_s >= TAKE_OVER_S:
        return ""
    return f"{known.rival.holder} leads under term {known.rival.term}"


def next_term(known: Leadership, look: Look, floor: int) -> int:
    """Return the term to claim: above every claim, and at least ``floor``."""
    return max(floor, known.term + 1, look.claim.term + 1 if look.claim else 0)


def won(known: Leadership, look: Look, term: int, at: float) -> Leadership:
    """Return that the term is ours since ``at``, after the claim and its heartbeat were written.

    In a store that was empty a leader may have lost its claim and still act for LEASE_S.
    """
    quiet_s = GRACE_S if known.rival is not None else LEASE_S if look.claim is None else 0.0
    acts_from = at + quiet_s if quiet_s else known.acts_from
    return Leadership(
        holder=known.holder, term=term, confirmed_at=look.at, acts_from=acts_from, looked_at=look.at
    )


def why_not_leading(known: Leadership, now: float) -> str:
    """Return why nothing may be ordered here, or an empty string.

    A leader whose store is silent still takes the orders of people: nobody else can have taken over.
    """
    return "" if known.term else why_not_bid(known, now) or "no term has been taken yet"


def why_not_acting(known: Leadership, now: float) -> str:
    """Return why no plan may be acted on, or an empty string."""
    if not known.term:
        return why_not_leading(known, now)
    if known.confirmed_at is None or now - known.confirmed_at > LEASE_S:
        since = "yet" if known.confirmed_at is None else f"for {now - known.confirmed_at:.0f} s"
        return f"the lead has not been confirmed {since}: Ray's head does not answer"
    if known.acts_from is not None and now < known.acts_from:
        return f"took the lead just now, and looks for another {known.acts_from - now:.0f} s before it acts"
    return ""
