"""Challenges without memory: a nonce that only we can make, for one address, for half a minute."""

import hashlib
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address

SECRET_BYTES: Final = 16
_NONCE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Cookies:
    """``secret`` never leaves this process."""

    secret: bytes

    def bake(self, address: Address, now: float) -> bytes:
        """Return the nonce for ``address`` of now."""
        return self._make(address, int(now // limits.COOKIE_S))

    def is_ours(self, nonce: bytes, address: Address, now: float) -> bool:
        """Return whether ``nonce`` was made for ``address`` less than two COOKIE_S ago."""
        slot = int(now // limits.COOKIE_S)
        return any(compare_digest(nonce, self._make(address, one)) for one in (slot, slot - 1))

    def _make(self, address: Address, slot: int) -> bytes:
        text = f"{address.host}|{address.port}|{slot}".encode()
        return hashlib.blake2b(text, digest_size=_NONCE_BYTES, key=self.secret).digest()
