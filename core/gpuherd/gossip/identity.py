"""Who a member is: its name, its key and the word of the cluster's CA. Travels once for each key.

The cryptography itself is handed in (``Signer``, ``Verifier``), so that this package needs no library
and a simulation may take a cheaper one.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, NewType, Protocol

import msgspec

from gpuherd.names import ClusterName, NodeName

NameHash = NewType("NameHash", bytes)
"""8 bytes that stand for a name in packets and records."""

HASH_BYTES: Final = 8
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A name and the key that speaks for it.

    ``issued_at_s`` is the wall second at which the CA signed it; a re-imaged node has a later one. 0 and
    no ``ca_signature`` stand for a key that the node made itself (``insecure`` mode).
    """

    name: NodeName
    key: bytes
    issued_at_s: int = 0
    ca_signature: bytes = b""


class Signer(Protocol):
    """Holds the private key of one node."""

    def sign(self, data: bytes) -> bytes:
        """Return 64 bytes that only this key can make of ``data``."""
        ...


class Verifier(Protocol):
    """Judges signatures of others."""

    def verify(self, key: bytes, signature: bytes, data: bytes) -> bool:
        """Return whether the holder of ``key`` (32 bytes) signed ``data``; never raises."""
        ...

    def vouches(self, cluster: ClusterName, identity: Identity) -> bool:
        """Return whether ``identity`` may speak in ``cluster``: by its CA, or anyone if insecure."""
        ...


def name_hash(name: str) -> NameHash:
    """Return the hash by which ``name`` is known in packets."""
    return NameHash(hashlib.blake2b(name.encode(), digest_size=HASH_BYTES).digest())


def cluster_hash(cluster: ClusterName) -> bytes:
    """Return the 8 bytes that keep packets of two clusters apart."""
    return hashlib.blake2b(cluster.encode(), digest_size=HASH_BYTES, person=b"cluster").digest()


def certified_bytes(cluster: ClusterName, identity: Identity) -> bytes:
    """Return what a CA signs to vouch for ``identity`` in ``cluster``."""
    return b"gpuherd gossip identity 1" + msgspec.msgpack.encode(
        [cluster, identity.name, identity.key, identity.issued_at_s]
    )
