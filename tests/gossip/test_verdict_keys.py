"""What it takes to make a verdict: Q keys, and not one less."""

import pytest
from tests.kit.gossip import ANY, accused, settled, verdict

from gpuherd.gossip import limits
from gpuherd.gossip.outputs import SendDatagram
from gpuherd.gossip.records import Accusation, Draft, epoch_low, sign
from gpuherd.gossip.verdicts import Kind, Verdict
from gpuherd_sim.gossip.quick_keys import QuickSigner
from gpuherd_sim.gossip.world import World


def forge(world: World, liar: int, subjects: list[int], kind: Kind) -> None:
    """Let ``liar``'s key sign a record that accuses all ``subjects``, and bring it to everybody."""
    core = world.nodes[liar].core
    desk = core._desk
    draft = Draft(
        owner=desk.hash,
        epoch=desk.epoch,
        version=desk.version + 100,
        address=desk.own.advertised,
        body=desk.body,
        accusations=tuple(
            Accusation(
                subject=world.nodes[one].core._desk.hash,
                epoch_low=epoch_low(world.nodes[one].epoch),
                kind=kind,
            )
            for one in subjects
        ),
    )
    record = sign(draft, desk.cluster, QuickSigner(world.nodes[liar].identity.key))
    for node in world.nodes:
        if node.number != liar:
            desk.send_raw(node.address, (record.wire,))
    outputs, desk.out = desk.out, []
    for output in outputs:
        if isinstance(output, SendDatagram):
            world._send(world.nodes[liar], output)


@pytest.mark.parametrize("nodes", [4, 6, 9, 12, 30])
@pytest.mark.parametrize("kind", list(Kind))
def test_one_key_cannot_make_a_verdict(nodes: int, kind: Kind) -> None:
    world = settled(nodes, seed=nodes)
    victims = list(range(min(8, nodes - 1)))
    liar = nodes - 1
    for _ in range(20):
        forge(world, liar, victims, kind)
        world.run(0.5)
    assert not accused(world, ANY)


@pytest.mark.parametrize("nodes", [4, 6, 9, 12])
def test_one_key_less_than_the_quorum_makes_none_and_the_quorum_does(nodes: int) -> None:
    world = settled(nodes, seed=nodes)
    needed = limits.quorum(nodes)
    for liar in range(1, needed):
        forge(world, liar, [0], Kind.SILENT)
    world.run(0.1)
    assert not accused(world, ANY)
    forge(world, needed, [0], Kind.SILENT)
    world.run(0.1)
    assert accused(world, ANY) == {0}


def test_a_voice_that_is_not_in_the_roster_does_not_count() -> None:
    world = settled(6, seed=3, observers=4)
    for liar in (6, 7, 8, 9):
        forge(world, liar, [0], Kind.SILENT)
    world.run(0.3)
    assert not accused(world, ANY)


def test_an_accusation_of_a_former_run_does_not_count() -> None:
    world = settled(6, seed=4)
    world.nodes[0].epoch -= 1  # what the liars believe
    for liar in range(1, 6):
        forge(world, liar, [0], Kind.SILENT)
    world.run(0.3)
    assert not accused(world, ANY)


def test_the_voice_of_a_dead_accuser_ends() -> None:
    world = settled(9, seed=5)
    needed = limits.quorum(9)
    dead = [3, 6]
    for node in dead:
        world.power_off(node)
    world.run(20.0)
    assert {verdict(world, 0, node) for node in dead} == {Verdict.FAILED}
    world.told.clear()
    living = [node for node in range(2, 9) if node not in dead]
    for liar in (*dead, *living[: needed - 1]):
        forge(world, liar, [1, *dead], Kind.SILENT)
    world.run(0.1)
    assert not accused(world, ANY)
