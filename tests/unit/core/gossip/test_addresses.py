"""Addresses in records: 6 or 18 bytes, and nothing that cannot be sent to."""

import pytest

from gpuherd.gossip.addresses import Address, pack, unpack


@pytest.mark.parametrize(("host", "size"), [("10.0.0.7", 6), ("fd00::7", 18)])
def test_an_address_comes_back_as_it_went(host: str, size: int) -> None:
    address = Address(host, 7946)
    packed = pack(address)
    assert len(packed) == size
    assert unpack(packed) == address


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"12345",
        b"\x0a\x00\x00\x07\x00\x00",
        b"\x00\x00\x00\x00\x1f\x0a",
        b"\xe0\x00\x00\x01\x1f\x0a",
        b"x" * 19,
    ],
    ids=["empty", "short", "port 0", "unspecified", "multicast", "long"],
)
def test_what_nobody_can_be_reached_at_is_no_address(packed: bytes) -> None:
    assert unpack(packed) is None


def test_a_name_of_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        pack(Address("node-3", 7946))
