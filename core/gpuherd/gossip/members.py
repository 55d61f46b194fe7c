"""The table of members: identities, newest records, tombstones, and the hashes that tell tables apart.

Who is let in under a name is decided here; what others accuse it of is the docket's business.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.buckets import Bucket
from gpuherd.gossip.identity import HASH_BYTES, Identity, NameHash
from gpuherd.gossip.records import Record
from gpuherd.gossip.replay import Window

_EPOCH_BYTES: Final = 6
_VERSION_BYTES: Final = 4
HEAD_BYTES: Final = HASH_BYTES + _EPOCH_BYTES + _VERSION_BYTES


@dataclass(slots=True)
class Member:
    """One admitted name. ``record`` is None between its introduction and its first record."""

    hash: NameHash
    identity: Identity
    added_at: float
    record: Record | None = None
    changed_at: float = 0.0
    heard_at: float | None = None
    window: Window | None = None
    replays: int = 0
    """Packets in a row that were no news: more than a few come from a host that was set back."""
    packets: Bucket = field(
        default_factory=lambda: Bucket(
            rate=limits.SENDER_PACKETS_PER_S, size=limits.BURST_S * limits.SENDER_PACKETS_PER_S
        )
    )

    @property
    def address(self) -> Address | None:
        """Where it says that it listens."""
        return None if self.record is None else self.record.address

    @property
    def has_left(self) -> bool:
        """Whether it said that it goes."""
        return self.record is not None and self.record.has_left

    @property
    def rank(self) -> tuple[int, int]:
        """(epoch, version) of its record; (0, 0) without one."""
        return (0, 0) if self.record is None else self.record.rank


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A member that is gone: records up to this rank are refused until ``until``."""

    rank: tuple[int, int]
    until: float


class Members:
    """All members by hash, in the order of their admission, with 256 incremental bucket hashes."""

    def __init__(self) -> None:
        self._by_hash: dict[NameHash, Member] = {}
        self._tombstones: dict[NameHash, Tombstone] = {}
        self._buckets = [0] * limits.BUCKETS
        self._total = 0
        self._own: tuple[NameHash, tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._by_hash)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_hash.values())

    def get(self, which: NameHash) -> Member | None:
        """Return the member, or None."""
        return self._by_hash.get(which)

    def set_own(self, which: NameHash, rank: tuple[int, int]) -> None:
        """Let our own record count in the hashes."""
        if self._own is not None:
            self._toggle(*self._own)
        self._own = (which, rank)
        self._toggle(which, rank)

    def admit(self, which: NameHash, identity: Identity, now: float) -> Member | None:
        """Let a new name in; None when the table is full. The caller has checked who vouches for it."""
        if len(self._by_hash) >= limits.MAX_MEMBERS:
            return None
        member = Member(hash=which, identity=identity, added_at=now)
        self._by_hash[which] = member
        return member

    def replace(self, member: Member, identity: Identity, now: float) -> None:
        """Give the name to another key: what the old one said ends, and cannot come back."""
        self._toggle(member.hash, member.rank)
        member.identity = identity
        member.record = None
        member.window = None
        member.added_at = now

    def merge(self, member: Member, record: Record, now: float) -> bool:
        """Take ``record`` if it is newer than what is known, and say whether it was."""
        stone = self._tombstones.get(member.hash)
        if stone is not None:
            if record.epoch <= stone.rank[0]:
                return False
            self._drop_stone(member.hash)
        if record.rank <= member.rank:
            return False
        self._toggle(member.hash, member.rank)
        member.record = record
        member.changed_at = now
        self._toggle(member.hash, member.rank)
        return True

    def is_buried(self, which: NameHash, epoch: int) -> bool:
        """Return whether a run of ``which`` is over by its tombstone."""
        stone = self._tombstones.get(which)
        return stone is not None and epoch <= stone.rank[0]

    def bury(self, member: Member, now: float) -> None:
        """Replace a member by its tombstone; the table's hash stays as it is."""
        del self._by_hash[member.hash]
        if member.record is None:
            return
        while len(self._tombstones) >= limits.MAX_TOMBSTONES:
            self._drop_stone(next(iter(self._tombstones)))
        self._tombstones[member.hash] = Tombstone(rank=member.rank, until=now + limits.TOMBSTONE_S)

    def expire(self, now: float) -> None:
        """Drop tombstones that are older than TOMBSTONE_S."""
        for which in [h for h, stone in self._tombstones.items() if stone.until <= now]:
            self._drop_stone(which)

    @property
    def tombstones(self) -> int:
        """How many tombstones there are."""
        return len(self._tombstones)

    @property
    def table_hash(self) -> bytes:
        """Return 8 bytes that are equal for equal tables."""
        return self._total.to_bytes(HASH_BYTES, "big")

    @property
    def bucket_hashes(self) -> bytes:
        """Return all bucket hashes, one after the other."""
        return b"".join(bucket.to_bytes(HASH_BYTES, "big") for bucket in self._buckets)

    def differing(self, other: bytes) -> bytes:
        """Return a bit for each bucket that differs from ``other``'s, 32 bytes."""
        bits = 0
        for number, bucket in enumerate(self._buckets):
            if other[number * HASH_BYTES : (number + 1) * HASH_BYTES] != bucket.to_bytes(HASH_BYTES, "big"):
                bits |= 1 << number
        return bits.to_bytes(limits.BUCKETS // 8, "big")

    def ranks(self, differing: bytes) -> list[tuple[NameHash, tuple[int, int]]]:
        """Return what is known, tombstones and ourselves too, in the buckets whose bit is set."""
        bits = int.from_bytes(differing, "big")
        entries = [(member.hash, member.rank) for member in self if member.record is not None]
        stones = [(which, stone.rank) for which, stone in self._tombstones.items()]
        own = [] if self._own is None else [self._own]
        return [one for one in (*entries, *stones, *own) if bits >> one[0][0] & 1]

    def heads(self, differing: bytes) -> bytes:
        """Return ``ranks`` packed, for a message."""
        return b"".join(_head(*one) for one in self.ranks(differing)[: limits.MAX_MEMBERS])

    def _toggle(self, which: NameHash, rank: tuple[int, int]) -> None:
        if rank != (0, 0):
            digest = hashlib.blake2b(_head(which, rank), digest_size=HASH_BYTES).digest()
            self._buckets[which[0]] ^= int.from_bytes(digest, "big")
            self._total ^= int.from_bytes(digest, "big")

    def _drop_stone(self, which: NameHash) -> None:
        self._toggle(which, self._tombstones.pop(which).rank)


def _head(which: NameHash, rank: tuple[int, int]) -> bytes:
    return which + rank[0].to_bytes(_EPOCH_BYTES, "big") + rank[1].to_bytes(_VERSION_BYTES, "big")


def parse_heads(packed: bytes) -> Iterable[tuple[NameHash, tuple[int, int]]]:
    """Yield what ``Members.heads`` packed; a torn end is left out."""
    for at in range(0, len(packed) - HEAD_BYTES + 1, HEAD_BYTES):
        epoch_at, version_at = at + HASH_BYTES, at + HASH_BYTES + _EPOCH_BYTES
        yield (
            NameHash(packed[at:epoch_at]),
            (
                int.from_bytes(packed[epoch_at:version_at], "big"),
                int.from_bytes(packed[version_at : at + HEAD_BYTES], "big"),
            ),
        )
