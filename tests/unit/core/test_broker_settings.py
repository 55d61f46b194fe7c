"""``[broker]``."""

import pytest

from gpuherd.broker_settings import BrokerSettings, parse_url
from gpuherd.errors import ConfigInvalid
from gpuherd.settings import parse


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://10.0.0.1:1884", ("10.0.0.1", 1884)),
        ("mqtt://broker.example", ("broker.example", 1883)),
        ("mqtt://[::1]:1885", ("::1", 1885)),
    ],
)
def test_a_url_names_host_and_port(url: str, expected: tuple[str, int]) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("table", "key", "why"),
    [
        ({"url": "http://x"}, "url", "write mqtt://host:port"),
        ({"url": "mqtt://me:secret@x"}, "url", "password_file"),
        ({"url": "mqtt://x:99999"}, "url", "out of range"),
        ({"keepalive_s": 0}, "keepalive_s", "1 to 3600"),
        ({"reconnect_first_s": 90.0}, "reconnect_cap_s", "at least reconnect_first_s"),
        ({"password_file": "p"}, "username", "missing"),
    ],
)
def test_a_bad_key_is_named_with_its_reason(table: dict[str, object], key: str, why: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(BrokerSettings, table, read_secret=lambda _: "hunter2")
    assert why in caught.value.problems[key]
    assert "hunter2" not in str(caught.value)
