"""Challenges: a nonce that only we can make, for one address, for half a minute, taken back once.

What was made is not remembered, so that strangers cost no memory; what came back is, so that a recorded
greeting is worth nothing.
"""

import hashlib
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address

SECRET_BYTES: Final = 16
_SALT_BYTES: Final = 8
_MAC_BYTES: Final = 8
NONCE_BYTES: Final = _SALT_BYTES + _MAC_BYTES


@dataclass(slots=True)
class Cookies:
    """``secret`` never leaves this process. Memory is bounded by the challenges that one may send."""

    secret: bytes
    _salt: int = 0
    _used: dict[bytes, int] = field(default_factory=dict)

    def bake(self, address: Address, now: float) -> bytes:
        """Return a new nonce for ``address``."""
        self._salt += 1
        salt = self._salt.to_bytes(_SALT_BYTES, "big")
        return salt + self._make(salt, address, int(now // limits.COOKIE_S))

    def redeem(self, nonce: bytes, address: Address, now: float) -> bool:
        """Return whether ``nonce`` was made for ``address`` less than two COOKIE_S ago, and use it up."""
        if len(nonce) != NONCE_BYTES or nonce in self._used:
            return False
        slot = int(now // limits.COOKIE_S)
        salt, mac = nonce[:_SALT_BYTES], nonce[_SALT_BYTES:]
        if not any(compare_digest(mac, self._make(salt, address, one)) for one in (slot, slot - 1)):
            return False
        self._used = {used: at for used, at in self._used.items() if at >= slot - 1}
        self._used[nonce] = slot
        return True

    def _make(self, salt: bytes, address: Address, slot: int) -> bytes:
        text = f"{address.host}|{address.port}|{slot}|".encode() + salt
        return hashlib.blake2b(text, digest_size=_MAC_BYTES, key=self.secret).digest()
