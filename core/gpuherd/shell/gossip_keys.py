"""The one door to Ed25519: a node's own key and the check of others' signatures.

In ``insecure`` mode nodes make their own keys and anybody may speak; the first key seen for a name is
pinned by the core. Certificates of a CA come in as another ``Verifier`` behind the same two words.
"""

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gpuherd.errors import ConfigInvalid
from gpuherd.gossip.identity import KEY_BYTES, Identity
from gpuherd.names import ClusterName

_KEPT_KEYS: Final = 4_096
"""Parsed public keys that are kept; twice the members that a node can know."""


class Ed25519Signer:
    """Signs with one node's private key, 32 bytes."""

    def __init__(self, private: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self.key: Final = self._private.public_key().public_bytes_raw()
        """The public key, 32 bytes."""

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        return self._private.sign(data)


class InsecureVerifier:
    """Checks signatures, and takes anybody's word for a name that nobody else has: loopback only."""

    def __init__(self) -> None:
        self._keys: dict[bytes, Ed25519PublicKey] = {}

    def verify(self, key: bytes, signature: bytes, data: bytes) -> bool:
        """Return whether the holder of ``key`` signed ``data``; never raises."""
        public = self._keys.get(key)
        try:
            if public is None:
                public = Ed25519PublicKey.from_public_bytes(key)
                if len(self._keys) >= _KEPT_KEYS:
                    self._keys.clear()
                self._keys[key] = public
            public.verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True

    def vouches(self, cluster: ClusterName, identity: Identity) -> bool:
        """Return True: nobody is asked."""
        del cluster, identity
        return True


def load_or_make(path: Path) -> Ed25519Signer:
    """Return the signer of the key file, made with mode 0600 when there is none yet.

    Raises ConfigInvalid when the file cannot be read or written, holds no key, or others can read it.
    """
    try:
        private = path.read_bytes()
        if path.stat().st_mode & 0o077:
            raise ConfigInvalid({"gossip": f"{path} can be read by others: chmod 600 it, or delete it"})
    except FileNotFoundError:
        private = _make(path)
    except OSError as error:
        raise ConfigInvalid({"gossip": f"{path} cannot be read: {error}"}) from error
    if len(private) != KEY_BYTES:
        why = f"{path} holds {len(private)} bytes and no key of {KEY_BYTES}: delete it to have a new one made"
        raise ConfigInvalid({"gossip": why})
    return Ed25519Signer(private)


def _make(path: Path) -> bytes:
    """Write a new key and return it; a crash in between leaves no half of one."""
    private = os.urandom(KEY_BYTES)
    scratch = path.with_suffix(".new")
    try:
        scratch.unlink(missing_ok=True)
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(private)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(path)
    except OSError as error:
        raise ConfigInvalid({"gossip": f"{path} cannot be written: {error}"}) from error
    return private
