"""The lead, held in Ray's key-value store or, for a fleet with one scaler, by word. Shells.

Keys: ``gpuherd/<cluster>/lease/<term>`` = holder, created once; ``gpuherd/<cluster>/beat/<term>`` = a number.
"""

from typing import Final, Protocol

from gpuherd.errors import HeadUnreachable
from gpuherd.names import ClusterName
from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_autoscaler import leadership
from gpuherd_autoscaler.leadership import Claim, Leadership, Look

log = logs.get("gpuherd.autoscaler")

_MAX_TERM_DIGITS: Final = 16
PROMOTED_S: Final = 60.0
"""How long a person's word lasts: the head may not answer just now, and an old word must not depose later."""


class Store(Protocol):
    """A key-value store whose create is atomic; each call raises HeadUnreachable without an answer."""

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        """Return all keys that start so."""
        ...

    async def kv_get(self, key: str) -> bytes | None:
        """Return a value, None when the key does not exist."""
        ...

    async def kv_create(self, key: str, value: bytes) -> bool:
        """Create a key; False when it exists already."""
        ...

    async def kv_put(self, key: str, value: bytes) -> None:
        """Set a key, new or not."""
        ...


class Lease(Protocol):
    """The lead as the loop sees it."""

    def promote(self) -> None:
        """Let the next claim succeed although another leads: a person says that the other is gone."""
        ...

    async def look(self) -> None:
        """Confirm the lead, or watch who has it; never raises but for cancellation."""
        ...

    async def claim(self, floor: int) -> int | None:
        """Return a term of at least ``floor`` that is ours alone, or None."""
        ...

    def why_not_leading(self) -> str:
        """Return why nothing may be ordered here, or an empty string."""
        ...

    def why_not_acting(self) -> str:
        """Return why no plan may be acted on, or an empty string."""
        ...


class SoleLease:
    """The lead of a scaler that its operator says to be the only one: terms come from the ledger alone."""

    def promote(self) -> None:
        """It leads already."""

    async def look(self) -> None:
        """Nothing to look at."""

    async def claim(self, floor: int) -> int | None:
        """Return the floor."""
        return floor

    def why_not_leading(self) -> str:
        """Return that nothing forbids it."""
        return ""

    def why_not_acting(self) -> str:
        """Return that nothing forbids it."""
        return ""


class StoreLease:
    """The lead by a claim in the store. ``holder`` is stable over restarts of one scaler with one ledger."""

    def __init__(self, store: Store, clock: Clock, cluster: ClusterName, *, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._prefix = f"gpuherd/{cluster}/"
        self._known = Leadership(holder=holder)
        self._beats = 0
        self._promoted_until = 0.0
        self._told = ""

    @property
    def known(self) -> Leadership:
        """Return what is known of who leads."""
        return self._known

    def promote(self) -> None:
        """Let a claim within PROMOTED_S succeed although another leads: a person says that it is gone."""
        if not self._known.term:
            self._promoted_until = self._clock.now() + PROMOTED_S

    async def look(self) -> None:
        """Read the claims; a leader confirms its own by a heartbeat, and claims it anew in an empty store."""
        began = self._clock.now()
        try:
            look = await self._read(began)
            self._known = leadership.see(self._known, look)
            if self._known.term:
                await self._confirm(look)
        except HeadUnreachable:
            self._known = leadership.blind(self._known)
        self._tell()

    async def _confirm(self, look: Look) -> None:
        known = self._known
        if leadership.lost(known, look):
            if not await self._create(known.term):
                return  # another was quicker in the empty store; the next look will see it
            self._known = leadership.reclaimed(known, self._clock.now())
        await self._beat(known.term)
        self._known = leadership.confirmed(self._known, look.at)

    async def claim(self, floor: int) -> int | None:
        """Try to take a term above every claim; None while another leads or the store is silent."""
        began = self._clock.now()
        is_promoted = began < self._promoted_until
        if not is_promoted and leadership.why_not_bid(self._known, began):
            return None
        try:
            look = await self._read(began)
            self._known = leadership.see(self._known, look)
            if not is_promoted and leadership.why_not_bid(self._known, self._clock.now()):
                return None
            term = leadership.next_term(self._known, look, floor)
            if not await self._create(term):
                return None
            await self._beat(term)
        except HeadUnreachable:
            self._known = leadership.blind(self._known)
            return None
        self._known = leadership.won(self._known, look, term, self._clock.now())
        self._promoted_until = 0.0
        self._tell()
        return term

    def why_not_leading(self) -> str:
        """Return why nothing may be ordered here, or an empty string."""
        return leadership.why_not_leading(self._known, self._clock.now())

    def why_not_acting(self) -> str:
        """Return why no plan may be acted on, or an empty string."""
        return leadership.why_not_acting(self._known, self._clock.now())

    async def _read(self, began: float) -> Look:
        prefix = f"{self._prefix}lease/"
        texts = [key[len(prefix) :] for key in await self._store.kv_keys(prefix)]
        terms = [int(text) for text in texts if _is_term(text)]
        if not terms:
            return Look(at=began, claim=None)
        term = max(terms)
        holder = await self._store.kv_get(f"{prefix}{term}")
        beat = await self._store.kv_get(f"{self._prefix}beat/{term}")
        claim = Claim(term=term, holder=(holder or b"?").decode(errors="replace")[:200])
        return Look(at=began, claim=claim, beat=(beat or b"")[:200])

    async def _create(self, term: int) -> bool:
        return await self._store.kv_create(f"{self._prefix}lease/{term}", self._known.holder.encode())

    async def _beat(self, term: int) -> None:
        self._beats += 1
        value = f"{self._beats} {self._clock.wall():.0f}".encode()
        await self._store.kv_put(f"{self._prefix}beat/{term}", value)

    def _tell(self) -> None:
        """Log who leads when that changes."""
        known = self._known
        if known.term:
            now = f"we lead under term {known.term}"
        elif known.rival is not None:
            now = f"{known.rival.holder} leads under term {known.rival.term}"
        else:
            return
        if now != self._told:
            self._told = now
            log.info("lead.changed", now=now)


def _is_term(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_TERM_DIGITS
