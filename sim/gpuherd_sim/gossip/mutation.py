"""Packets spoiled on purpose: seeded, so that a crash can be played again by its number."""

import random
from collections.abc import Mapping

import msgspec

from gpuherd.gossip.identity import HASH_BYTES, SIGNATURE_BYTES, NameHash
from gpuherd.gossip.packet import MAGIC, MINOR, VERSION
from gpuherd_sim.gossip.quick_keys import QuickSigner

_HEAD = MAGIC + bytes((VERSION, MINOR))
_FIXED = len(_HEAD) + SIGNATURE_BYTES
_EDGES = (0, 1, 0x7F, 0x80, 0xC0, 0xC4, 0xCF, 0xD9, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF)
"""Bytes that begin lengths, arrays and maps in msgpack."""
_MAX_CHANGES = 3
_UINT64 = 0xCF
# Of the content: an array of five, two hashes of 2 + 8 bytes, an epoch of 1 + 8, a counter.
_SENDER_AT = 1 + 10 + 2
_EPOCH_AT = 1 + 10 + 10
_COUNTER_AT = _EPOCH_AT + 9


def mutate(payload: bytes, rng: random.Random, others: tuple[bytes, ...]) -> bytes:
    """Return ``payload`` with one to three changes: bytes, runs, lengths, pieces of other packets."""
    made = bytearray(payload)
    for _ in range(rng.randint(1, _MAX_CHANGES)):
        rng.choice(_CHANGES)(made, rng.randrange(len(made) + 1), rng, others)
    return bytes(made)


def _flip(made: bytearray, at: int, rng: random.Random, _: tuple[bytes, ...]) -> None:
    made[at : at + 1] = bytes(one ^ 1 << rng.randrange(8) for one in made[at : at + 1])


def _put_edge(made: bytearray, at: int, rng: random.Random, _: tuple[bytes, ...]) -> None:
    made[at : at + 1] = bytes([rng.choice(_EDGES)])


def _delete(made: bytearray, at: int, rng: random.Random, _: tuple[bytes, ...]) -> None:
    del made[at : at + rng.randint(1, 16)]


def _insert(made: bytearray, at: int, rng: random.Random, _: tuple[bytes, ...]) -> None:
    made[at:at] = rng.randbytes(rng.randint(1, 16))


def _put_length(made: bytearray, at: int, rng: random.Random, _: tuple[bytes, ...]) -> None:
    made[at : at + 5] = bytes([rng.choice((0xDD, 0xDB, 0xC6, 0xDF))]) + rng.randbytes(4)


def _splice(made: bytearray, at: int, rng: random.Random, others: tuple[bytes, ...]) -> None:
    other = rng.choice(others)
    begin = rng.randrange(len(other))
    made[at:at] = other[begin : begin + rng.randint(1, 64)]


def _cut(made: bytearray, at: int, _: random.Random, __: tuple[bytes, ...]) -> None:
    del made[at:]


_CHANGES = (_flip, _flip, _put_edge, _delete, _insert, _put_length, _splice, _cut)


def reseal(payload: bytes, keys: Mapping[NameHash, bytes]) -> bytes:
    """Return ``payload`` with its head put right and signed by the sender that it names: a bad member."""
    content = payload[_FIXED:]
    sender = NameHash(content[_SENDER_AT : _SENDER_AT + HASH_BYTES])
    key = keys.get(sender, next(iter(keys.values())))
    return _HEAD + QuickSigner(key).sign(_HEAD + content) + content


def recount(payload: bytes, counter: int) -> bytes:
    """Return the packet with another counter, as long as its content still begins as one."""
    content = payload[_FIXED:]
    if len(content) <= _COUNTER_AT or content[_EPOCH_AT] != _UINT64:
        return payload
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, _UINT64: 8}.get(content[_COUNTER_AT], 0)
    packed = msgspec.msgpack.encode(counter)
    return payload[: _FIXED + _COUNTER_AT] + packed + content[_COUNTER_AT + 1 + size :]
