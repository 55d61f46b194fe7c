"""Where a node may listen and by which address peers reach it."""

import pytest

from gpuherd.gossip.addresses import Address
from gpuherd.gossip_settings import GossipSettings, loopback_problems, parse_address


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        pytest.param({"bind": "0.0.0.0"}, "advertise", "cannot reach 0.0.0.0", id="bind to all, say nothing"),  # noqa: S104
        pytest.param({"advertise": "::"}, "advertise", "cannot reach ::", id="unspecified"),
        pytest.param({"advertise": "10.0.0.1"}, "advertise", "while 'bind' is 127.0.0.1", id="loopback only"),
        pytest.param({"advertise": "224.0.0.1"}, "advertise", "no address of one host", id="multicast"),
        pytest.param({"advertise": "gpu-1"}, "advertise", "is no IP address", id="a name"),
        pytest.param({"port": 0}, "port", "outside", id="port"),
        pytest.param({"seeds": ("gpu-1:7947",)}, "seeds", "not host:port", id="seed by name"),
    ],
)
def test_an_address_that_peers_cannot_reach_is_refused_with_the_reason(
    settings: dict[str, object], key: str, words: str
) -> None:
    problems = dict(GossipSettings(enabled=True, **settings).problems())  # type: ignore[arg-type]  # by key
    assert words in problems[key]


@pytest.mark.parametrize("address", ["10.1.2.3", "0.0.0.0", "2001:db8::1"])  # noqa: S104  refused
def test_own_keys_serve_on_loopback_only(address: str) -> None:
    assert list(loopback_problems(GossipSettings(enabled=True, bind=address)))
    assert not list(loopback_problems(GossipSettings(bind=address)))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:7947", Address("10.0.0.1", 7947)),
        ("[::1]:1", Address("::1", 1)),
        ("::1:7947", None),
        ("10.0.0.1", None),
        ("10.0.0.1:0", None),
        ("10.0.0.1:70000", None),
    ],
)
def test_seeds_are_addresses_with_a_port(text: str, address: Address | None) -> None:
    assert parse_address(text) == address
