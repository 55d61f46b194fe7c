"""Where a member listens: one UDP and TCP port of one IP address, packed in 6 or 18 bytes."""

import ipaddress
from typing import Final, NamedTuple

_PORT_BYTES: Final = 2
_PACKED: Final = (4 + _PORT_BYTES, 16 + _PORT_BYTES)
MAX_PORT: Final = 65_535


class Address(NamedTuple):
    """An IP address as text without brackets or zone, and the port of both UDP and TCP."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as people write it, with brackets around IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def pack(address: Address) -> bytes:
    """Return the 6 or 18 bytes of ``address``; raises ValueError when its host is no IP address."""
    return ipaddress.ip_address(address.host).packed + address.port.to_bytes(_PORT_BYTES, "big")


def unpack(packed: bytes) -> Address | None:
    """Return the address in ``packed``, or None for another length, port 0 or no single host."""
    if len(packed) not in _PACKED:
        return None
    host = ipaddress.ip_address(packed[:-_PORT_BYTES])
    port = int.from_bytes(packed[-_PORT_BYTES:], "big")
    if port == 0 or host.is_unspecified or host.is_multicast:
        return None
    return Address(str(host), port)
