"""Challenges: good once, for one address, for a short time."""

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.cookies import NONCE_BYTES, Cookies

HERE, THERE = Address("10.0.0.1", 7946), Address("10.0.0.2", 7946)


def test_a_nonce_is_good_once_and_for_its_address_alone() -> None:
    cookies = Cookies(b"s" * 16)
    nonce = cookies.bake(HERE, 100.0)
    assert len(nonce) == NONCE_BYTES
    assert not cookies.redeem(nonce, THERE, 100.1)
    assert cookies.redeem(nonce, HERE, 100.1)
    assert not cookies.redeem(nonce, HERE, 100.2)


def test_a_nonce_is_no_good_after_a_minute_or_of_another_process() -> None:
    cookies = Cookies(b"s" * 16)
    nonce = cookies.bake(HERE, 0.0)
    assert not cookies.redeem(nonce, HERE, 2 * limits.COOKIE_S)
    assert not Cookies(b"t" * 16).redeem(cookies.bake(HERE, 0.0), HERE, 0.0)
    assert not cookies.redeem(b"", HERE, 0.0)
