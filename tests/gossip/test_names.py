"""Who may speak for a name: one key, one run, and what a recording is worth."""

import pytest
from tests.kit.gossip import GONE, accused, is_agreed, settled, verdict

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.identity import Identity
from gpuherd.gossip.outputs import (
    AdvertiseUnreachable,
    ClusterMismatch,
    EpochTaken,
    NameConflict,
    NameTaken,
    Superseded,
)
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd.names import ClusterName
from gpuherd_sim.gossip.node import Node
from gpuherd_sim.gossip.quick_keys import QuickVerifier, certify, make_key
from gpuherd_sim.gossip.world import PORT, SIM_CLUSTER, Plan, World

ELSEWHERE = Address("10.99.0.1", PORT)
SEEDS = range(10)


def told(world: World, kind: type, node: int | None = None) -> list[object]:
    return [t.event for t in world.told if isinstance(t.event, kind) and node in (None, t.node)]


def second(world: World, of: int, *, key: bytes | None = None, issued_at_s: int = 0) -> Node:
    """Start another host that says it is ``of``."""
    name = world.name(of)
    identity = Identity(name=name, key=key or world.nodes[of].identity.key, issued_at_s=issued_at_s)
    number = len(world.nodes)
    return world.add(number, identity=certify(SIM_CLUSTER, identity), address=ELSEWHERE)


@pytest.mark.parametrize("has_key", [True, False], ids=["with its key", "with another key"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_clone_of_a_live_node_is_kept_out_and_told_where_the_other_is(seed: int, has_key: bool) -> None:
    world = settled(6, seed)
    clone = second(world, 2, key=None if has_key else make_key("other"))
    world.run(40.0)
    told_to_it = told(world, NameTaken, clone.number)
    assert told_to_it, f"seed {seed}"
    assert told_to_it[0].address == world.address(2)  # type: ignore[attr-defined]  # of that kind
    assert told(world, NameConflict), f"seed {seed}"
    assert clone.core.view(world.now).role is Role.JOINING
    assert {
        m.address for i in range(6) for m in world.nodes[i].core.view(0).members if m.name == "n0002"
    } == {world.address(2)}
    assert not accused(world, GONE), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_set_up_anew_with_a_newer_certificate_wins(seed: int) -> None:
    world = settled(6, seed, needs_authority=True)
    new = second(world, 2, key=make_key("new"), issued_at_s=2_000)
    world.run(30.0)
    assert told(world, Superseded, 2), f"seed {seed}"
    assert world.nodes[2].core.view(world.now).role is Role.RETIRED
    for node in (0, 1, 3, 4, 5):
        members = world.nodes[node].core.view(world.now).members
        assert {m.address for m in members if m.name == "n0002"} == {ELSEWHERE}, f"seed {seed}"
        assert verdict(world, node, 2) is Verdict.ALIVE
    assert new.core.view(world.now).role is Role.ACTIVE


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_died_may_come_back_at_another_address_with_another_key(seed: int) -> None:
    world = settled(6, seed)
    world.power_off(2)
    world.run(20.0)
    second(world, 2, key=make_key("new disk"))
    world.run(40.0)
    for node in (0, 1, 3, 4, 5):
        assert verdict(world, node, 2) is Verdict.ALIVE, f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_vm_snapshot_resume(seed: int) -> None:
    """A host goes back to an old snapshot: same key, same run, counters far behind every replay window."""
    world = settled(6, seed, keep_inputs=True)
    snapshot = world.snapshot(3)
    world.run(1_000.0)
    world.resume(3, snapshot)
    world.run(60.0)
    assert told(world, EpochTaken, 3), f"seed {seed}"
    assert {verdict(world, node, 3) for node in range(6)} == {Verdict.ALIVE}, f"seed {seed}"
    assert is_agreed(world), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reused_address_of_another_cluster_is_told_and_changes_nothing(seed: int) -> None:
    world = settled(5, seed)
    other = World(Plan(nodes=5, seed=seed, cluster=ClusterName("other")))
    other.run(6.0)
    packet = other.nodes[1].core._desk.seal(())
    for node in range(5):
        world.deliver(world.nodes[node], ELSEWHERE, packet)
    world.run(5.0)
    assert [e.address for e in told(world, ClusterMismatch, 0)] == [ELSEWHERE]  # type: ignore[attr-defined]
    assert world.nodes[0].core.counters.dropped["cluster"] == 1
    assert len(world.nodes[0].core.view(world.now).members) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_an_identity_without_the_authority_is_not_let_in(seed: int) -> None:
    world = settled(5, seed, needs_authority=True)
    forged = Identity(name=world.name(77), key=make_key("forged"), ca_signature=b"x" * 64)
    intruder = world.add(len(world.nodes), identity=forged, address=ELSEWHERE)
    world.run(20.0)
    assert {len(world.nodes[i].core.view(0).members) for i in range(5)} == {5}
    assert intruder.core.view(world.now).role is Role.JOINING
    assert any(world.nodes[i].core.counters.dropped.get("unproven") for i in range(3))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wait_s", [0.1, 40.0], ids=["at once", "after 40 s"])
def test_every_recorded_packet_played_again_changes_nothing(seed: int, wait_s: float) -> None:
    world = settled(6, seed, keep_packets=2_000)
    world.run(10.0)
    recorded = list(world.kept)
    before = {(m.name, m.epoch, m.version) for m in world.nodes[0].core.view(world.now).members}
    world.run(wait_s)
    world.told.clear()
    for target, source, payload in recorded:
        world.deliver(world.nodes[target], source, payload)
        world.deliver(world.nodes[(target + 1) % 6], source, payload)
    world.run(10.0)
    assert not world.told, f"seed {seed}: {world.told[:2]}"
    after = {(m.name, m.epoch, m.version) for m in world.nodes[0].core.view(world.now).members}
    assert after == before, f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_an_advertised_address_that_nobody_reaches_is_told_to_its_owner(seed: int) -> None:
    world = settled(5, seed)
    wrong = Address("172.18.0.1", PORT)
    late = world.add(len(world.nodes), identity=None, advertised=wrong)
    world.run(20.0)
    found = told(world, AdvertiseUnreachable, late.number)
    assert found, f"seed {seed}"
    assert found[0].advertised == wrong  # type: ignore[attr-defined]  # of that kind


def test_the_verifier_of_the_simulation_refuses_what_is_forged() -> None:
    verifier = QuickVerifier(needs_authority=True)
    identity = Identity(name=World(Plan(nodes=1, seed=0)).name(1), key=make_key("k"))
    assert not verifier.vouches(SIM_CLUSTER, identity)
    assert verifier.vouches(SIM_CLUSTER, certify(SIM_CLUSTER, identity))
    assert not verifier.vouches(ClusterName("other"), certify(SIM_CLUSTER, identity))
