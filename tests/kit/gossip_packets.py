"""One packet of every kind of message, with fixed keys: what a version of the wire looks like."""

import json
from pathlib import Path
from typing import Final

from tests.kit.repository import ROOT

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address, pack
from gpuherd.gossip.bodies import Body, NodeState, Reach
from gpuherd.gossip.identity import Identity, cluster_hash, name_hash
from gpuherd.gossip.messages import (
    Ack,
    AnyMessage,
    Ask,
    Compare,
    Deaf,
    Differ,
    Fine,
    Heed,
    Hello,
    Introduce,
    Ping,
    Stale,
    Stop,
    Swap,
    Taken,
)
from gpuherd.gossip.packet import Stamp, seal
from gpuherd.gossip.records import Accusation, Draft, Record, sign
from gpuherd.gossip.verdicts import Kind
from gpuherd.names import ClusterName, NodeName
from gpuherd.phases import Phase
from gpuherd_sim.gossip.quick_keys import QuickSigner, certify, make_key

GOLDEN: Final = ROOT / "tests" / "golden"
CLUSTER: Final = ClusterName("prod")
EPOCH: Final = 1_767_225_600_123
SUBJECT: Final = name_hash("gpu-017")
KEY: Final = make_key("golden")
IDENTITY: Final = certify(CLUSTER, Identity(name=NodeName("gpu-001"), key=KEY, issued_at_s=1_767_000_000))


def record(accusations: int = 2) -> Record:
    """Return a record with every field set."""
    return sign(
        Draft(
            owner=name_hash("gpu-001"),
            epoch=EPOCH,
            version=7,
            address=Address("fd00::1", 7946),
            body=Body(
                state=NodeState.DEGRADED,
                reason_bits=0xDEADBEEF,
                phase=Phase.DRAINING,
                gpus_declared=8,
                gpus_present=7,
                head=Reach.REACHED,
                broker=Reach.LOST,
                versions_hash=b"version!",
                in_maintenance=True,
            ),
            has_more=True,
            accusations=tuple(
                Accusation(subject=name_hash(f"gpu-{i:03}"), epoch_low=i, kind=list(Kind)[i % 3])
                for i in range(20, 20 + accusations)
            ),
        ),
        cluster_hash(CLUSTER),
        QuickSigner(KEY),
    )


def messages() -> dict[str, tuple[AnyMessage, ...]]:
    """Return messages of every kind by the name of their packet."""
    address = pack(Address("10.0.0.1", 7946))
    identity = Introduce(IDENTITY.name, IDENTITY.key, IDENTITY.issued_at_s, IDENTITY.ca_signature)
    return {
        "ping": (Ping(1),),
        "ack_with_news": (Ack(2**32 - 1, b"12345678", True), identity, record().wire),
        "inquiry": (Ask(SUBJECT), Heed(SUBJECT), Fine(SUBJECT), Stop(SUBJECT)),
        "hello": (Hello(b"n" * 16, b"e" * 16), identity, record(8).wire),
        "refusals": (Taken(address), Stale(EPOCH), Deaf(address)),
        "compare": (Compare(bytes(range(8)) * limits.BUCKETS),),
        "differ": (Differ(b"\x01" * 32, SUBJECT + bytes(10)),),
        "swap": (Swap(SUBJECT + b"\x01"),),
    }


def packets() -> dict[str, bytes]:
    """Return the sealed packets by name."""
    stamp = Stamp(cluster=cluster_hash(CLUSTER), sender=name_hash("gpu-001"), epoch=EPOCH, counter=300)
    return {name: seal(stamp, found, QuickSigner(KEY)) for name, found in messages().items()}


def golden_path(version: int) -> Path:
    """Return where the packets of a wire version are kept."""
    return GOLDEN / f"gossip_v{version}.json"


def read_golden(version: int) -> dict[str, bytes]:
    """Return the kept packets by name."""
    kept = json.loads(golden_path(version).read_text(encoding="utf-8"))
    return {name: bytes.fromhex(packed) for name, packed in kept.items()}
