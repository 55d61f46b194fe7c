"""The messages in a packet: arrays with a number in front. Fields and numbers are added at the end only.

A number that this version does not know is skipped, further fields of a known one are ignored: two minor
versions run together.
"""

from typing import Annotated

import msgspec

from gpuherd.gossip import limits
from gpuherd.gossip.identity import HASH_BYTES, KEY_BYTES, SIGNATURE_BYTES

Hash = Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
Sequence = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Nonce = Annotated[bytes, msgspec.Meta(max_length=2 * HASH_BYTES)]
PackedAddress = Annotated[bytes, msgspec.Meta(max_length=18)]
Epoch = Annotated[int, msgspec.Meta(gt=0, le=limits.MAX_EPOCH)]

WANT_BYTES = HASH_BYTES + 1


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all messages."""


class Ping(Message, frozen=True, array_like=True, gc=False, tag=1):
    """Answer with Ack."""

    sequence: Sequence


class Ack(Message, frozen=True, array_like=True, gc=False, tag=2):
    """Answer to a ping, with the hash of the answerer's table. ``is_busy`` = it still has news to spread."""

    sequence: Sequence
    table: Hash
    is_busy: bool


class Ask(Message, frozen=True, array_like=True, gc=False, tag=3):
    """To a witness: look at this member, whom the asker cannot reach."""

    subject: Hash


class Heed(Message, frozen=True, array_like=True, gc=False, tag=4):
    """From a witness: it looks."""

    subject: Hash


class Fine(Message, frozen=True, array_like=True, gc=False, tag=5):
    """From a witness: it reached the member."""

    subject: Hash


class Stop(Message, frozen=True, array_like=True, gc=False, tag=6):
    """To the other witnesses: somebody reached the member, look no further."""

    subject: Hash


class Spread(Message, frozen=True, array_like=True, gc=False, tag=7):
    """A record, as its owner signed it."""

    packed: Annotated[bytes, msgspec.Meta(max_length=limits.MAX_RECORD_BYTES)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class Introduce(Message, frozen=True, array_like=True, gc=False, tag=8):
    """An identity; comes before the record of an owner that the other may not know."""

    name: Annotated[str, msgspec.Meta(max_length=63)]
    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    issued_at_s: Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
    ca_signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES)]


class Hello(Message, frozen=True, array_like=True, gc=False, tag=9):
    """Between strangers. ``nonce`` is to come back as ``echo``: a recording cannot answer."""

    nonce: Nonce
    echo: Nonce


class Taken(Message, frozen=True, array_like=True, gc=False, tag=10):
    """The greeter's name is online at this address."""

    address: PackedAddress


class Stale(Message, frozen=True, array_like=True, gc=False, tag=11):
    """The greeter's counters lie in the past of this run of it: it was resumed, and needs a higher epoch."""

    epoch: Epoch


class Deaf(Message, frozen=True, array_like=True, gc=False, tag=12):
    """The greeter was heard, and its advertised address does not answer."""

    address: PackedAddress


class Compare(Message, frozen=True, array_like=True, gc=False, tag=13):
    """The bucket hashes of a table, one after the other."""

    buckets: Annotated[
        bytes,
        msgspec.Meta(min_length=limits.BUCKETS * HASH_BYTES, max_length=limits.BUCKETS * HASH_BYTES),
    ]


class Differ(Message, frozen=True, array_like=True, gc=False, tag=14):
    """Which buckets differ, a bit each, and (hash, epoch, version) of every entry in them."""

    differing: Annotated[bytes, msgspec.Meta(min_length=limits.BUCKETS // 8, max_length=limits.BUCKETS // 8)]
    heads: Annotated[bytes, msgspec.Meta(max_length=limits.MAX_FRAME_BYTES)]


class Swap(Message, frozen=True, array_like=True, gc=False, tag=15):
    """Records that the sender wants: (hash, 1 if it needs the identity too) each."""

    wants: Annotated[bytes, msgspec.Meta(max_length=WANT_BYTES * limits.MAX_FRAME_ENTRIES)]


AnyMessage = (
    Ping
    | Ack
    | Ask
    | Heed
    | Fine
    | Stop
    | Spread
    | Introduce
    | Hello
    | Taken
    | Stale
    | Deaf
    | Compare
    | Differ
    | Swap
)
KNOWN_TAGS = frozenset(range(1, 16))
