"""Who follows without a voice: the autoscaler, and names that the roster does not hold."""

import pytest
from tests.kit.gossip import GONE, accused, settled, verdict

from gpuherd.gossip.bodies import Body
from gpuherd.gossip.inputs import Publish
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd_sim.gossip.world import Plan, World


@pytest.mark.parametrize("seed", range(10))
def test_an_observer_sees_what_the_members_see_and_is_never_asked_or_accused(seed: int) -> None:
    world = settled(8, seed, observers=1)
    view = world.nodes[8].core.view(world.now)
    assert (view.role, view.expected) == (Role.OBSERVER, 8)
    world.power_off(3)
    world.run(14.0)
    assert verdict(world, 8, 3) in GONE
    assert world.nodes[8].core.counters.accusations == 0
    world.power_off(8)
    world.run(14.0)
    assert accused(world) == {3}, f"seed {seed}"
    assert world.nodes[0].core.view(world.now).expected == 8


@pytest.mark.parametrize("seed", range(10))
def test_an_observer_joins_although_the_first_seeds_are_dark(seed: int) -> None:
    world = World(Plan(nodes=6, seed=seed, observers=1))
    world.power_off(0)
    world.power_off(1)
    world.run(12.0)
    view = world.nodes[6].core.view(world.now)
    assert {m.name for m in view.members} == {world.name(i) for i in range(2, 7)}, f"seed {seed}"
    assert view.missing == (world.name(0), world.name(1))


def test_the_sight_of_a_cut_off_observer_fades_while_no_verdict_is_made() -> None:
    world = settled(8, seed=1, observers=1)
    world.run(20.0)
    assert world.nodes[8].core.view(world.now).sight == 8
    world.network.split((8,))
    world.run(40.0)
    assert world.nodes[8].core.view(world.now).sight == 0
    assert not accused(world)


def test_a_name_outside_the_roster_is_shown_and_has_no_voice() -> None:
    world = settled(6, seed=2)
    late = world.add(6)
    world.run(12.0)
    assert late.core.view(world.now).role is Role.OBSERVER
    seen = {m.name: m.is_expected for m in world.nodes[0].core.view(world.now).members}
    assert seen[world.name(6)] is False
    assert world.nodes[0].core.view(world.now).expected == 6


def test_without_a_roster_every_member_counts() -> None:
    world = settled(6, seed=3, has_roster=False)
    assert {n.core.view(world.now).expected for n in world.nodes} == {6}
    world.kill(5)
    world.run(14.0)
    assert {verdict(world, node, 5) for node in range(5)} <= GONE


def test_maintenance_is_told_and_leaves_the_verdict_as_it_is() -> None:
    world = settled(6, seed=4)
    world.command(2, Publish(body=Body(in_maintenance=True)))
    world.run(3.0)
    world.kill(2)
    world.run(5.0)
    member = next(m for m in world.nodes[0].core.view(world.now).members if m.name == world.name(2))
    assert member.body.in_maintenance
    assert member.verdict is Verdict.AGENT_DEAD
