"""The envelope of datagrams and frames: who speaks, in which run, in which order, signed.

``gh``, version, minor version, 64 bytes of signature, then a msgpack array of cluster hash, sender hash,
epoch, counter and messages. Nothing is compressed and nothing is encrypted. Sizes are checked before
anything is decoded, counts while it is.
"""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from gpuherd.errors import WireInvalid
from gpuherd.gossip import limits
from gpuherd.gossip.identity import SIGNATURE_BYTES, NameHash, Signer
from gpuherd.gossip.messages import KNOWN_TAGS, AnyMessage, Epoch, Hash, Spread

MAGIC: Final = b"gh"
VERSION: Final = 1
MINOR: Final = 0
_HEAD: Final = MAGIC + bytes((VERSION, MINOR))
_FIXED_BYTES: Final = len(_HEAD) + SIGNATURE_BYTES
OVERHEAD_BYTES: Final = _FIXED_BYTES + 40
"""Envelope of a packet at its largest: head, signature, hashes, epoch, counter, array lengths."""
SPREAD_OVERHEAD_BYTES: Final = 8

Counter = Annotated[int, msgspec.Meta(gt=0, le=2**62)]


class _Content(msgspec.Struct, array_like=True, frozen=True):
    cluster: Hash
    sender: Hash
    epoch: Epoch
    counter: Counter
    messages: Annotated[tuple[AnyMessage, ...], msgspec.Meta(max_length=limits.MAX_FRAME_MESSAGES)]


class _Loose(msgspec.Struct, array_like=True, frozen=True):
    cluster: Hash
    sender: Hash
    epoch: Epoch
    counter: Counter
    messages: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=limits.MAX_FRAME_MESSAGES)]


class _Numbered(msgspec.Struct, array_like=True, frozen=True):
    number: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_CONTENT: Final = msgspec.msgpack.Decoder(_Content)
_LOOSE: Final = msgspec.msgpack.Decoder(_Loose)
_NUMBERED: Final = msgspec.msgpack.Decoder(_Numbered)
_MESSAGE: Final[msgspec.msgpack.Decoder[AnyMessage]] = msgspec.msgpack.Decoder(AnyMessage)


@dataclass(frozen=True, slots=True)
class Packet:
    """A decoded packet. Nothing in it is proven before ``signed`` has been checked against ``signature``."""

    cluster: bytes
    sender: NameHash
    epoch: int
    counter: int
    messages: tuple[AnyMessage, ...]
    signature: bytes
    signed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the envelope says of its sender."""

    cluster: bytes
    sender: NameHash
    epoch: int
    counter: int


def seal(stamp: Stamp, messages: tuple[AnyMessage, ...], signer: Signer) -> bytes:
    """Return the signed bytes of one packet."""
    content = _ENCODER.encode((stamp.cluster, stamp.sender, stamp.epoch, stamp.counter, messages))
    return _HEAD + signer.sign(_HEAD + content) + content


def open_packet(payload: bytes, *, max_bytes: int) -> Packet:
    """Return the packet in ``payload``.

    Raises WireInvalid with one of ``oversize, short, magic, version, fields``. Costs time and memory in
    proportion to the payload, whatever it declares.
    """
    if len(payload) > max_bytes:
        raise WireInvalid("oversize", f"{len(payload)} bytes, at most {max_bytes}")
    if len(payload) <= _FIXED_BYTES:
        raise WireInvalid("short", f"{len(payload)} bytes")
    if payload[: len(MAGIC)] != MAGIC:
        raise WireInvalid("magic", "no packet of gpuherd")
    if payload[len(MAGIC)] != VERSION:
        raise WireInvalid("version", f"version {payload[len(MAGIC)]}, this node speaks {VERSION}")
    content = payload[_FIXED_BYTES:]
    try:
        found = _decode(content)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise WireInvalid("fields", str(error)[:200]) from error
    most = limits.MAX_MESSAGES if max_bytes <= limits.MAX_DATAGRAM_BYTES else limits.MAX_FRAME_MESSAGES
    if len(found.messages) > most:
        raise WireInvalid("fields", f"{len(found.messages)} messages, at most {most}")
    return Packet(
        cluster=found.cluster,
        sender=NameHash(found.sender),
        epoch=found.epoch,
        counter=found.counter,
        messages=found.messages,
        signature=payload[len(_HEAD) : _FIXED_BYTES],
        signed=payload[: len(_HEAD)] + content,
    )


def _decode(content: bytes) -> _Content:
    try:
        return _CONTENT.decode(content)
    except msgspec.ValidationError:
        loose = _LOOSE.decode(content)
    known = tuple(
        _MESSAGE.decode(raw) for raw in loose.messages if _NUMBERED.decode(raw).number in KNOWN_TAGS
    )
    if len(known) == len(loose.messages):
        raise msgspec.ValidationError("a message is out of range")
    return _Content(
        cluster=loose.cluster,
        sender=loose.sender,
        epoch=loose.epoch,
        counter=loose.counter,
        messages=known,
    )


def spread_bytes(wire: Spread) -> int:
    """Return how much of a packet a record takes."""
    return len(wire.packed) + len(wire.signature) + SPREAD_OVERHEAD_BYTES
