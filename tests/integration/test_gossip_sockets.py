"""The shipped gossip over real sockets of loopback: whole processes that join, die, stop, leave and lie."""

import os
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.gossip_hosts import Hosts

from gpuherd.gossip.identity import cluster_hash, name_hash
from gpuherd.gossip.limits import MAX_FRAME_BYTES
from gpuherd.gossip.messages import Introduce
from gpuherd.gossip.packet import Stamp, seal
from gpuherd.names import ClusterName, NodeName
from gpuherd.shell.gossip_keys import Ed25519Signer


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path) as made:
        yield made


def test_a_killed_agent_is_known_dead_to_all_and_alive_again_after_its_restart(hosts: Hosts) -> None:
    hosts.fleet(5)
    port = hosts.by_name["n2"].port
    hosts.signal("n2", signal.SIGKILL)
    hosts.until_verdict("n2", "agent_dead", by=("n0", "n1", "n3", "n4"))
    hosts.start("n2", port=port)
    hosts.until_verdict("n2", "alive", by=("n0", "n1", "n3", "n4"))


def test_a_stopped_agent_is_stalled_and_never_dead(hosts: Hosts) -> None:
    hosts.fleet(5)
    hosts.signal("n3", signal.SIGSTOP)
    hosts.until_verdict("n3", "stalled", by=("n0", "n1", "n2", "n4"))
    hosts.signal("n3", signal.SIGCONT)
    hosts.until_verdict("n3", "alive", by=("n0", "n1", "n2", "n4"))
    words = {
        word for name in ("n0", "n1", "n2", "n4") for _, about, word in hosts.said(name) if about == "n3"
    }
    assert not words & {"agent_dead", "unreachable", "failed"}


def test_an_agent_that_is_told_to_end_has_left_and_is_accused_by_nobody(hosts: Hosts) -> None:
    hosts.fleet(4)
    hosts.signal("n1", signal.SIGTERM)
    hosts.until_verdict("n1", "left", by=("n0", "n2", "n3"))


def test_ipv6_serves_as_well(tmp_path: Path) -> None:
    with Hosts(tmp_path, address="::1") as hosts:
        hosts.fleet(4)
        hosts.signal("n0", signal.SIGKILL)
        hosts.until_verdict("n0", "agent_dead", by=("n1", "n2", "n3"))


def test_another_key_for_the_name_of_a_live_node_stays_out(hosts: Hosts) -> None:
    hosts.fleet(4)
    hosts.start("n1", key="thief", log="thief")
    hosts.until(
        "somebody tells of the conflict",
        lambda: any(e == "NameConflict" for n in ("n0", "n2", "n3") for e, _, _ in hosts.said(n)),
    )
    assert all(hosts.last_verdict(name, "n1") == "alive" for name in ("n0", "n2", "n3"))
    assert hosts.by_name["n1"].process.poll() is None


def test_a_node_of_another_cluster_is_told_of_and_never_joins(hosts: Hosts) -> None:
    hosts.fleet(3)
    hosts.start("stray", cluster="other")
    hosts.until("n0 tells of it", lambda: any(e == "ClusterMismatch" for e, _, _ in hosts.said("n0")))
    assert all(name != "stray" for e, name, _ in hosts.said("n0") if e == "Joined")


def test_junk_of_every_kind_neither_ends_nor_deafens_a_node(hosts: Hosts) -> None:
    hosts.fleet(5)
    chance = random.Random(4)  # noqa: S311  the same junk each time
    target = ("127.0.0.1", hosts.by_name["n0"].port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for packet in junk(chance):
            sock.sendto(packet, target)
    for frame in (b"\xff" * 8, (MAX_FRAME_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\5hello", b"\0\0"):
        with socket.create_connection(target) as stream:
            stream.sendall(frame)
    idle = [socket.create_connection(target) for _ in range(200)]
    try:
        hosts.signal("n4", signal.SIGKILL)
        hosts.until_verdict("n4", "agent_dead", by=("n0", "n1", "n2", "n3"))
    finally:
        for stream in idle:
            stream.close()
    assert hosts.by_name["n0"].process.poll() is None
    assert all(hosts.last_verdict(name, "n0") == "alive" for name in ("n1", "n2", "n3"))


def junk(chance: random.Random) -> Iterator[bytes]:
    """Yield 20,000 packets: noise, oversize, a future version, bad signatures, 10,000 invented members."""
    cluster = cluster_hash(ClusterName("test"))
    signer = Ed25519Signer(os.urandom(32))
    for number in range(4_000):
        yield chance.randbytes(chance.randrange(0, 1_400))
        yield b"\xfe" + chance.randbytes(200)
        if number % 400 == 0:
            yield chance.randbytes(60_000)
    for number in range(10_000):
        name = NodeName(f"invented-{number}")
        stamp = Stamp(cluster=cluster, sender=name_hash(name), epoch=1, counter=number + 1)
        if number % 20 == 0:
            messages = (Introduce(name=name, key=signer.key, issued_at_s=0, ca_signature=b""),)
            yield seal(stamp, messages, signer)
        else:
            yield seal_cheaply(stamp, chance)


def seal_cheaply(stamp: Stamp, chance: random.Random) -> bytes:
    """Return a packet whose signature is noise."""

    class Noise:
        key = b""

        def sign(self, data: bytes) -> bytes:
            del data
            return chance.randbytes(64)

    return seal(stamp, (), Noise())
