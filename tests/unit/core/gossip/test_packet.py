"""The wire: kept packets of each version, bounds before allocation, two minors side by side."""

import msgspec
import pytest
from tests.kit.gossip_packets import CLUSTER, KEY, messages, packets, read_golden, record

from gpuherd.errors import WireInvalid
from gpuherd.gossip import limits
from gpuherd.gossip.identity import cluster_hash, name_hash
from gpuherd.gossip.messages import AnyMessage, Ping, Spread
from gpuherd.gossip.packet import VERSION, open_packet
from gpuherd.gossip.records import parse, signed_bytes
from gpuherd_sim.gossip.quick_keys import QuickSigner, QuickVerifier

FRAME = limits.MAX_FRAME_BYTES
HEAD = b"gh\x01\x00"


def test_this_version_still_writes_the_packets_that_were_kept() -> None:
    assert packets() == read_golden(VERSION)


@pytest.mark.parametrize("name", sorted(messages()))
def test_a_kept_packet_is_read_as_what_was_written(name: str) -> None:
    packet = open_packet(read_golden(VERSION)[name], max_bytes=FRAME)
    assert packet.messages == messages()[name]
    assert (packet.cluster, packet.sender, packet.counter) == (
        cluster_hash(CLUSTER),
        name_hash("gpu-001"),
        300,
    )
    assert QuickVerifier().verify(KEY, packet.signature, packet.signed)


def test_a_record_with_eight_accusations_fits_and_is_read_as_it_was_written() -> None:
    full = record(8)
    assert len(full.wire.packed) + len(full.wire.signature) <= limits.MAX_RECORD_BYTES
    assert parse(full.wire) == full
    assert len(full.accusations) == 8


def test_a_record_is_bound_to_its_cluster() -> None:
    wire = record().wire
    verifier = QuickVerifier()
    assert verifier.verify(KEY, wire.signature, signed_bytes(cluster_hash(CLUSTER), wire.packed))
    assert not verifier.verify(KEY, wire.signature, signed_bytes(b"otherone", wire.packed))


def sealed(content: bytes) -> bytes:
    return HEAD + QuickSigner(KEY).sign(HEAD + content) + content


def packed(*found: object, epoch: object = 5, counter: object = 1) -> bytes:
    return msgspec.msgpack.encode([b"c" * 8, b"s" * 8, epoch, counter, list(found)])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "short"),
        (b"gh", "short"),
        (b"x" * 1_201, "oversize"),
        (b"no" + b"x" * 100, "magic"),
        (b"gh\x02\x00" + b"x" * 100, "version"),
        (b"gh\x00\x00" + b"x" * 100, "version"),
        (sealed(b"\xc1"), "fields"),
        (sealed(b"\xdd\xff\xff\xff\xff" * 4), "fields"),
        (sealed(b"\x95\xc6\xff\xff\xff\xff" * 4), "fields"),
        (sealed(b"\x91" * 1_000), "fields"),
        (sealed(packed(epoch=0)), "fields"),
        (sealed(packed(epoch=2**48)), "fields"),
        (sealed(packed(epoch=-1)), "fields"),
        (sealed(packed(epoch=float("nan"))), "fields"),
        (sealed(packed(counter=0)), "fields"),
        (sealed(packed(counter=2**63)), "fields"),
        (sealed(packed([1, 2**32])), "fields"),
        (sealed(packed([1, -1])), "fields"),
        (sealed(packed([3, b"short"])), "fields"),
        (sealed(packed([7, b"x" * 257, b"s" * 64])), "fields"),
        (sealed(packed([8, "n" * 64, b"k" * 32, 0, b""])), "fields"),
        (sealed(packed(*[[1, 1]] * (limits.MAX_MESSAGES + 1))), "fields"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_what_is_no_packet_is_refused_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        open_packet(payload, max_bytes=limits.MAX_DATAGRAM_BYTES)
    assert refused.value.reason == reason


def test_messages_of_a_later_minor_are_skipped_and_longer_ones_are_understood() -> None:
    later: tuple[object, ...] = ([99, "news"], [1, 7, "a field of tomorrow"])
    packet = open_packet(sealed(packed(*later)), max_bytes=limits.MAX_DATAGRAM_BYTES)
    assert packet.messages == (Ping(7),)


def test_a_record_of_a_later_minor_is_understood() -> None:
    wire = record().wire
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(wire.packed), "tomorrow"])
    found = parse(Spread(longer, wire.signature))
    assert found is not None
    assert found.body == record().body


@pytest.mark.parametrize(
    "change",
    [
        {11: 9},
        {5: 99},
        {7: 99},
        {12: b"x" * 12},
        {12: b"x" * 12 + b"\x09"},
        {4: b"1234"},
        {0: b"short"},
    ],
    ids=["reach", "state", "phase", "torn accusation", "kind", "address", "owner"],
)
def test_a_record_out_of_range_is_no_record(change: dict[int, object]) -> None:
    fields = msgspec.msgpack.decode(record().wire.packed)
    for at, value in change.items():
        fields[at] = value
    assert parse(Spread(msgspec.msgpack.encode(fields), b"s" * 64)) is None


def test_every_message_has_its_golden_packet() -> None:
    kinds = {type(one) for found in messages().values() for one in found}
    assert kinds == set(AnyMessage.__args__)
