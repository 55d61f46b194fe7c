"""Where the broker is and how patient we are with it: ``[broker]`` of both daemons."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gpuherd.settings import Secret

_DEFAULT_PORT: Final = 1883
_MAX_KEEPALIVE_S: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Keys under ``[broker]``."""

    url: str = "mqtt://127.0.0.1:1883"
    """One broker a cluster. A name is resolved anew on each connect."""
    username: str = ""
    password: Secret | None = None
    keepalive_s: int = 10
    """A lost peer is noticed after up to twice this. Lower costs packets, higher delays the last will."""
    timeout_s: float = 10.0
    """How long one call (connect, subscribe, publish) may take before the connection counts as lost."""
    reconnect_first_s: float = 10.0
    """The first reconnect comes at a random moment within this; too low and a fleet returns as one."""
    reconnect_cap_s: float = 60.0
    """No reconnect waits longer. At least ``reconnect_first_s``."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what no field can know of itself."""
        try:
            parse_url(self.url)
        except ValueError as error:
            yield "url", str(error)
        if not 1 <= self.keepalive_s <= _MAX_KEEPALIVE_S:
            yield "keepalive_s", f"is 1 to {_MAX_KEEPALIVE_S}"
        if self.timeout_s <= 0:
            yield "timeout_s", "is above 0"
        if self.reconnect_first_s <= 0:
            yield "reconnect_first_s", "is above 0"
        if self.reconnect_cap_s < self.reconnect_first_s:
            yield "reconnect_cap_s", "is at least reconnect_first_s"
        if self.password is not None and not self.username:
            yield "username", "is missing beside a password"


def parse_url(url: str) -> tuple[str, int]:
    """Return (host, port) of ``mqtt://host:port``; raises ValueError with what is wrong."""
    parts = urlsplit(url)
    if parts.scheme != "mqtt" or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"{url[:80]!r} is no broker: write mqtt://host:port")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a broker's user and password have keys of their own: username, password_file")
    return parts.hostname, parts.port or _DEFAULT_PORT
