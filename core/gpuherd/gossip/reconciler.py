"""Anti-entropy: two members whose table hashes differ compare 256 bucket hashes and swap what lacks.

Two calls by stream: compare -> heads of the differing buckets; records that the other lacks and a wish list
-> the records wished for. Nothing is asked for that is not different.
"""

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk, introduce
from gpuherd.gossip.identity import HASH_BYTES, NameHash
from gpuherd.gossip.members import Member, parse_heads
from gpuherd.gossip.messages import WANT_BYTES, AnyMessage, Compare, Differ, Swap
from gpuherd.gossip.outputs import Purpose

_NEVER = -1e9


class Reconciler:
    """One exchange of our own at a time, at most one a second; those that bring nothing get rarer."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._calls: dict[int, NameHash] = {}
        self._next_at = _NEVER
        self._distance_s = limits.EXCHANGE_AFTER_S
        self._seen_records = 0

    def differs(self, peer: Member, table: bytes, *, is_busy: bool, now: float) -> None:
        """An ack told the hash of a peer's table."""
        if table == self._desk.members.table_hash:
            self._distance_s = limits.EXCHANGE_AFTER_S
            return
        if not is_busy and not len(self._desk.queue) and now >= self._next_at:
            self.exchange(peer, now)

    def exchange(self, peer: Member, now: float) -> None:
        """Compare tables with a peer now, unless an exchange is going on."""
        desk = self._desk
        if self._calls or peer.record is None:
            return
        if desk.counters.records_in == self._seen_records:
            self._distance_s = min(limits.EXCHANGE_BACKOFF_MAX_S, 2 * self._distance_s)
        else:
            self._distance_s = limits.EXCHANGE_AFTER_S
        self._seen_records = desk.counters.records_in
        self._next_at = now + self._distance_s
        desk.counters.exchanges += 1
        buckets = desk.members.bucket_hashes
        # Our identity goes along: a stream proves the address, and the other may not know us yet.
        messages = (introduce(desk.own.identity), desk.record.wire, Compare(buckets))
        self._start(peer, messages)

    def compared(self, peer: Member, told: Differ) -> None:
        """The peer told what it has in the differing buckets: give it what it lacks, ask for the rest."""
        desk = self._desk
        theirs = dict(parse_heads(told.heads))
        messages: list[AnyMessage] = []
        for which, rank in desk.members.ranks(told.differing):
            other = theirs.get(which, (0, 0))
            if rank > other and which != peer.hash and len(messages) < 2 * limits.MAX_FRAME_ENTRIES:
                messages.extend(self._entry(which, with_identity=other == (0, 0)))
        wants = bytearray()
        for which, rank in theirs.items():
            known = desk.members.get(which)
            ours = desk.record.rank if which == desk.hash else (0, 0) if known is None else known.rank
            has_room = len(wants) < WANT_BYTES * limits.MAX_FRAME_ENTRIES
            if rank > ours and has_room and not desk.members.is_buried(which, rank[0]):
                wants += which + bytes([known is None])
        if messages or wants:
            self._start(peer, (*messages, Swap(bytes(wants))))

    def ended(self, call: int) -> bool:
        """Take note that a call ended; returns whether it was one of ours."""
        return self._calls.pop(call, None) is not None

    def is_ours(self, call: int) -> bool:
        """Return whether this call is an exchange."""
        return call in self._calls

    def answer(self, messages: tuple[AnyMessage, ...]) -> tuple[AnyMessage, ...]:
        """Return what a peer that opened a stream to us gets."""
        for message in messages:
            if isinstance(message, Compare):
                differing = self._desk.members.differing(message.buckets)
                return (Differ(differing, self._desk.members.heads(differing)),)
            if isinstance(message, Swap):
                found: list[AnyMessage] = []
                for at in range(0, len(message.wants) - WANT_BYTES + 1, WANT_BYTES):
                    which = NameHash(message.wants[at : at + HASH_BYTES])
                    found.extend(self._entry(which, with_identity=bool(message.wants[at + HASH_BYTES])))
                return tuple(found)
        return ()

    def _entry(self, which: NameHash, *, with_identity: bool) -> tuple[AnyMessage, ...]:
        record, identity = self._desk.lookup(which)
        if record is None or identity is None:
            return ()
        return (introduce(identity), record.wire) if with_identity else (record.wire,)

    def _start(self, peer: Member, messages: tuple[AnyMessage, ...]) -> None:
        if peer.record is not None:
            call = self._desk.call(peer.record.address, messages, limits.CALL_TIMEOUT_S, Purpose.EXCHANGE)
            self._calls[call] = peer.hash
