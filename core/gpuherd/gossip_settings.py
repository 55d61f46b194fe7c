"""``[gossip]``: where this node listens for its peers, and by which address they reach it. Pure."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.gossip.addresses import MAX_PORT, Address

DEFAULT_PORT: Final = 7947


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSettings:
    """``[gossip]``."""

    enabled: bool = False
    """Whether this node takes part. Off until certificates come, since own keys serve on loopback only; a
    node without gossip is judged by the broker's word alone, which takes 15 s and more."""
    bind: str = "127.0.0.1"
    """IP address to listen on, UDP and TCP. ``::`` takes IPv4 too; only loopback while ``insecure``."""
    port: int = DEFAULT_PORT
    """One port for UDP and TCP. It must be free: never hand it to socket activation, since a socket that is
    held by somebody else completes handshakes for a dead agent and makes it look stalled."""
    advertise: str = ""
    """IP address by which peers reach this node; empty = ``bind``. A wrong one keeps the node out: its
    peers cannot knock on it, and say so."""
    seeds: tuple[str, ...] = ()
    """``host:port`` or ``[v6]:port`` of members to begin with, contacted for ever. Two or three on
    different racks are plenty; with none the node waits to be found."""

    @property
    def advertised(self) -> Address:
        """Return where peers reach this node."""
        return Address(str(ipaddress.ip_address(self.advertise or self.bind)), self.port)

    @property
    def seed_addresses(self) -> tuple[Address, ...]:
        """Return the seeds, parsed; valid once ``problems`` yields nothing."""
        return tuple(found for text in self.seeds if (found := parse_address(text)) is not None)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if not 0 < self.port <= MAX_PORT:
            yield "port", f"{self.port} is outside 1 to {MAX_PORT}"
        if _ip(self.bind) is None:
            yield "bind", f"{self.bind!r} is no IP address"
        for text in self.seeds:
            if parse_address(text) is None:
                yield "seeds", f"{text!r} is not host:port with an IP address"
        if self.enabled and _ip(self.bind) is not None:
            yield from self._advertise_problems()

    def _advertise_problems(self) -> Iterator[tuple[str, str]]:
        key = "advertise" if self.advertise else "bind"
        address = _ip(self.advertise or self.bind)
        if address is None:
            yield "advertise", f"{self.advertise!r} is no IP address"
        elif address.is_unspecified:
            yield (
                "advertise",
                f"peers cannot reach {address}, which {key!r} gives: name the address that they use",
            )
        elif address.is_multicast or address == ipaddress.ip_address("255.255.255.255"):
            yield key, f"{address} is no address of one host"
        elif address.is_loopback is False and ipaddress.ip_address(self.bind).is_loopback:
            yield "advertise", f"nobody reaches {address} while 'bind' is {self.bind}, which is loopback"


def loopback_problems(settings: GossipSettings) -> Iterator[tuple[str, str]]:
    """Yield each address that own keys do not allow: without certificates only loopback is."""
    if not settings.enabled:
        return
    named = [("bind", settings.bind), ("advertise", settings.advertise)]
    named += [("seeds", seed.host) for seed in settings.seed_addresses]
    for key, text in named:
        address = _ip(text)
        if address is not None and not address.is_loopback and not address.is_unspecified:
            yield f"gossip.{key}", f"{text} can be reached from outside, which insecure = true does not allow"
        elif address is not None and address.is_unspecified:
            yield f"gossip.{key}", f"{text} listens to everybody, which insecure = true does not allow"


def parse_address(text: str) -> Address | None:
    """Return the address in ``1.2.3.4:5`` or ``[::1]:5``, or None."""
    host, colon, port = text.rpartition(":")
    ip = _ip(host.removeprefix("[").removesuffix("]") if host.startswith("[") else host)
    if not colon or ip is None or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        return None
    if ip.version == 6 and not host.startswith("["):  # noqa: PLR2004  its colons would be taken for the port's
        return None
    return Address(str(ip), int(port))


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
