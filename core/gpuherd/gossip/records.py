"""A member's record: what it says of itself and whom it accuses, signed by itself, at most 256 bytes.

The cluster is part of what is signed and does not travel. Of two records of one name the higher (epoch,
version) wins, whoever brings it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from gpuherd.gossip import addresses, limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body, NodeState, Reach
from gpuherd.gossip.identity import HASH_BYTES, NameHash, Signer
from gpuherd.gossip.messages import Hash, Spread
from gpuherd.gossip.verdicts import Kind
from gpuherd.phases import Phase

EPOCH_BYTES: Final = 4
_ACCUSATION_BYTES: Final = HASH_BYTES + EPOCH_BYTES + 1
_LOW_BITS: Final = (1 << 8 * EPOCH_BYTES) - 1
_LEFT, _OBSERVER, _MORE, _MAINTENANCE = 1, 2, 4, 8
_PHASES: Final = tuple(Phase)
_MAX_GPUS: Final = 1_024
_REACHES: Final = len(Reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """One member of whom the owner says that it does not answer; ``epoch_low`` = its epoch modulo 2**32."""

    subject: NameHash
    epoch_low: int
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one member said last. ``wire`` is the signed form that is passed on as it is."""

    owner: NameHash
    epoch: int
    version: int
    address: Address
    body: Body
    has_left: bool
    is_observer: bool
    has_more: bool
    accusations: tuple[Accusation, ...]
    wire: Spread

    @property
    def rank(self) -> tuple[int, int]:
        """What is compared between two records of one owner."""
        return self.epoch, self.version


class _Packed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The signed bytes, before they mean anything. Fields are added at the end only."""

    owner: Hash
    epoch: Annotated[int, msgspec.Meta(gt=0, le=limits.MAX_EPOCH)]
    version: Annotated[int, msgspec.Meta(gt=0, le=limits.MAX_VERSION)]
    flags: Annotated[int, msgspec.Meta(ge=0, lt=256)]
    address: Annotated[bytes, msgspec.Meta(max_length=18)]
    state: Annotated[int, msgspec.Meta(ge=0, lt=len(NodeState))]
    reason_bits: Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
    phase: Annotated[int, msgspec.Meta(ge=0, lt=len(_PHASES))]
    gpus_declared: Annotated[int, msgspec.Meta(ge=0, le=_MAX_GPUS)]
    gpus_present: Annotated[int, msgspec.Meta(ge=0, le=_MAX_GPUS)]
    reach: Annotated[int, msgspec.Meta(ge=0, lt=_REACHES * _REACHES)]
    versions_hash: Annotated[bytes, msgspec.Meta(max_length=HASH_BYTES)]
    accusations: Annotated[bytes, msgspec.Meta(max_length=_ACCUSATION_BYTES * limits.MAX_ACCUSATIONS)]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record before it is signed."""

    owner: NameHash
    epoch: int
    version: int
    address: Address
    body: Body
    has_left: bool = False
    is_observer: bool = False
    has_more: bool = False
    accusations: tuple[Accusation, ...] = ()


def signed_bytes(cluster: bytes, packed: bytes) -> bytes:
    """Return what the owner of a record signs."""
    return b"gpuherd gossip record 1" + cluster + packed


def sign(draft: Draft, cluster: bytes, signer: Signer) -> Record:
    """Return the record of ``draft``; raises ValueError when its body is out of range."""
    body = draft.body
    flags = (
        _LEFT * draft.has_left
        | _OBSERVER * draft.is_observer
        | _MORE * draft.has_more
        | _MAINTENANCE * body.in_maintenance
    )
    packed = _ENCODER.encode(
        _Packed(
            owner=draft.owner,
            epoch=draft.epoch,
            version=draft.version,
            flags=flags,
            address=addresses.pack(draft.address),
            state=body.state.value,
            reason_bits=body.reason_bits,
            phase=_PHASES.index(body.phase),
            gpus_declared=body.gpus_declared,
            gpus_present=body.gpus_present,
            reach=body.head.value * _REACHES + body.broker.value,
            versions_hash=body.versions_hash,
            accusations=b"".join(map(_pack, draft.accusations)),
        )
    )
    made = parse(Spread(packed=packed, signature=signer.sign(signed_bytes(cluster, packed))))
    if made is None:
        raise ValueError(f"a record of this body cannot be sent: {body}")
    return made


@lru_cache(maxsize=limits.MAX_MEMBERS)
def parse(wire: Spread) -> Record | None:
    """Return the record in ``wire``, or None when its bytes make none. Its signature is not checked.

    The same bytes come about ten times, from ten members: the last 2,048 results are kept.
    """
    if len(wire.packed) + len(wire.signature) > limits.MAX_RECORD_BYTES:
        return None
    try:
        packed = _DECODER.decode(wire.packed)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
    address = addresses.unpack(packed.address)
    accusations = _unpack(packed.accusations)
    if address is None or accusations is None:
        return None
    return Record(
        owner=NameHash(packed.owner),
        epoch=packed.epoch,
        version=packed.version,
        address=address,
        body=_body(packed),
        has_left=bool(packed.flags & _LEFT),
        is_observer=bool(packed.flags & _OBSERVER),
        has_more=bool(packed.flags & _MORE),
        accusations=tuple(a for a in accusations if a.subject != packed.owner),
        wire=wire,
    )


def _body(packed: _Packed) -> Body:
    return Body(
        state=NodeState(packed.state),
        reason_bits=packed.reason_bits,
        phase=_PHASES[packed.phase],
        gpus_declared=packed.gpus_declared,
        gpus_present=packed.gpus_present,
        head=Reach(packed.reach // _REACHES),
        broker=Reach(packed.reach % _REACHES),
        versions_hash=packed.versions_hash,
        in_maintenance=bool(packed.flags & _MAINTENANCE),
    )


def _pack(accusation: Accusation) -> bytes:
    return (
        accusation.subject
        + accusation.epoch_low.to_bytes(EPOCH_BYTES, "big")
        + accusation.kind.value.to_bytes(1, "big")
    )


def _unpack(packed: bytes) -> tuple[Accusation, ...] | None:
    if len(packed) % _ACCUSATION_BYTES:
        return None
    found: dict[NameHash, Accusation] = {}
    for at in range(0, len(packed), _ACCUSATION_BYTES):
        subject = NameHash(packed[at : at + HASH_BYTES])
        kind = _KINDS.get(packed[at + _ACCUSATION_BYTES - 1])
        if kind is None or subject in found:
            return None
        epoch_low = int.from_bytes(packed[at + HASH_BYTES : at + HASH_BYTES + EPOCH_BYTES], "big")
        found[subject] = Accusation(subject=subject, epoch_low=epoch_low, kind=kind)
    return tuple(found.values())


_KINDS: Final[Mapping[int, Kind]] = {kind.value: kind for kind in Kind}


def epoch_low(epoch: int) -> int:
    """Return the part of an epoch that an accusation names."""
    return epoch & _LOW_BITS
