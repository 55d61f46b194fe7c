"""The laws of gossip, each over many seeds: the shipped core, its real bytes, virtual time.

A failure names its seed; ``settled(nodes, seed)`` plays it again.
"""

import pytest
from tests.kit.gossip import GONE, accused, is_agreed, learned_at, running, settled, tables, verdict

from gpuherd.gossip.inputs import Leave
from gpuherd.gossip.outputs import Departed
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd_sim.gossip.node import Starvation
from gpuherd_sim.gossip.world import Plan, World

BOUND_S = 14.0
"""Worst wait for a first probe at 12 nodes, and everything after it."""

SEEDS = [
    pytest.param(range(200), id="200 seeds"),
    pytest.param(range(200, 2_000), id="2,000 seeds", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]),
]
FEW = [
    pytest.param(range(20), id="20 seeds"),
    pytest.param(range(20, 200), id="200 seeds", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]),
]


def size(seed: int) -> int:
    return 4 + seed % 9


def assert_known(world: World, victims: set[int], seed: int) -> None:
    for victim in victims:
        missing = set(running(world)) - set(learned_at(world, victim))
        assert not missing, f"seed {seed}: {sorted(missing)} do not know of {victim}"


@pytest.mark.parametrize("seeds", SEEDS)
def test_completeness_every_crash_is_known_to_all_and_nobody_else_is_accused(seeds: range) -> None:
    for seed in seeds:
        world = settled(size(seed), seed)
        victim = seed % size(seed)
        (world.kill if seed % 2 else world.power_off)(victim)
        world.run(BOUND_S)
        assert_known(world, {victim}, seed)
        assert accused(world) == {victim}, f"seed {seed}"
        expected = Verdict.AGENT_DEAD if seed % 2 else Verdict.UNREACHABLE
        after = {verdict(world, node, victim) for node in running(world)}
        assert after <= {expected, Verdict.FAILED}, f"seed {seed}"


@pytest.mark.parametrize("seeds", SEEDS)
def test_accuracy_no_death_of_a_running_node_under_loss_and_starvation(seeds: range) -> None:
    for seed in seeds:
        world = settled(size(seed), seed)
        world.network.loss = (0.0, 0.01, 0.05, 0.1, 0.2)[seed % 5]
        world.network.doubles = 0.05 * (seed % 2)
        world.network.jitter_s = 0.05 if seed % 3 == 0 else 0.0008
        if size(seed) >= 8:
            world.starve(seed % size(seed), Starvation(reads=seed % 4 != 1, timers=seed % 4 != 2))
        world.run(25.0)
        # A fifth of all packets lost *and* no CPU: even the kernel is not heard for moments.
        is_harsh = world.network.loss == 0.2 and size(seed) >= 8
        assert not accused(world, frozenset({Verdict.FAILED}) if is_harsh else GONE), f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
@pytest.mark.parametrize("nodes", [2, 4, 6, 8, 10, 11, 12])
def test_even_split_no_verdict_either_side(nodes: int, seeds: range) -> None:
    """11 is split 5:6; there the larger side may see, and the smaller one must not."""
    for seed in seeds:
        world = settled(nodes, seed)
        half = tuple(range(nodes // 2))
        world.network.split(half)
        world.run(30.0)
        blind = half if nodes % 2 else tuple(range(nodes))
        wrong = [told for told in world.told if told.node in blind and "VerdictChanged" in str(told.event)]
        assert not wrong, f"seed {seed}: {wrong[:3]}"
        roles = {world.nodes[node].core.view(world.now).role for node in blind}
        assert roles <= {Role.MINORITY, Role.ISOLATED}, f"seed {seed}"
        if nodes % 2:
            assert accused(world, GONE) == set(half), f"seed {seed}"
        world.network.heal()
        world.run(20.0)
        assert is_agreed(world), f"seed {seed}"
        assert {world.nodes[node].core.view(world.now).role for node in range(nodes)} == {Role.ACTIVE}
        assert {verdict(world, a, b) for a in range(nodes) for b in range(nodes)} == {Verdict.ALIVE}


@pytest.mark.parametrize("seeds", FEW)
def test_a_blip_of_two_to_seven_seconds_fails_nobody_and_is_forgotten(seeds: range) -> None:
    for seed in seeds:
        world = settled(12, seed)
        world.network.split((0,))
        world.run(2.0 + seed % 6)
        world.network.heal()
        world.run(6.0)
        assert not accused(world, frozenset({Verdict.FAILED})), f"seed {seed}"
        assert {verdict(world, node, 0) for node in range(1, 12)} == {Verdict.ALIVE}, f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
def test_a_stopped_process_is_stalled_and_never_failed(seeds: range) -> None:
    for seed in seeds:
        world = settled(10, seed)
        world.freeze(3)
        world.run(15.0)
        assert {verdict(world, node, 3) for node in running(world)} == {Verdict.STALLED}, f"seed {seed}"
        world.thaw(3)
        world.run(4.0)
        assert not accused(world, GONE), f"seed {seed}"
        assert {verdict(world, node, 3) for node in range(10) if node != 3} == {Verdict.ALIVE}


@pytest.mark.parametrize("seeds", FEW)
@pytest.mark.parametrize("fault", ["deaf", "mute"])
def test_a_node_with_half_a_way_poisons_nobody_else(fault: str, seeds: range) -> None:
    for seed in seeds:
        world = settled(10, seed)
        (world.network.deafen if fault == "deaf" else world.network.mute)(4)
        world.run(25.0)
        assert accused(world) <= {4}, f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
def test_a_cut_between_two_that_others_reach_is_no_verdict(seeds: range) -> None:
    for seed in seeds:
        world = settled(10, seed)
        world.network.cut(1, 2)
        world.network.cut(2, 1)
        world.run(30.0)
        assert not accused(world), f"seed {seed}"
        seen = {told.event.name for told in world.told if "PathFailed" in type(told.event).__name__}
        assert seen == {world.name(1), world.name(2)}, f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
def test_a_majority_of_a_three_way_split_goes_on_and_a_heal_leaves_one_view(seeds: range) -> None:
    for seed in seeds:
        world = settled(11, seed)
        world.network.split((0, 1), (2, 3, 4))
        world.run(20.0)
        for node in range(5, 11):
            assert {verdict(world, node, other) for other in range(5)} <= GONE, f"seed {seed}"
        world.network.heal()
        world.run(20.0)
        assert is_agreed(world), f"seed {seed}"
        assert not {v for a in range(11) for b in range(11) if (v := verdict(world, a, b)) in GONE}


@pytest.mark.parametrize("seeds", FEW)
def test_a_flapping_way_never_fails_anybody(seeds: range) -> None:
    for seed in seeds:
        world = settled(9, seed)
        for _ in range(5):
            world.network.split((0,))
            world.run(1.0 + seed % 5)
            world.network.heal()
            world.run(3.0)
        world.run(6.0)
        assert not accused(world, frozenset({Verdict.FAILED})), f"seed {seed}"
        assert is_agreed(world), f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
def test_two_islands_of_the_start_become_one(seeds: range) -> None:
    for seed in seeds:
        world = islands(seed)
        world.run(25.0)
        assert is_agreed(world), f"seed {seed}: {len(tables(world))} tables"


def islands(seed: int) -> World:
    world = World(Plan(nodes=8, seed=seed, seeds=5))
    world.network.split((0, 1, 2, 3))
    world.run(20.0)
    world.network.heal()
    return world


@pytest.mark.parametrize("seeds", FEW)
def test_a_clean_leave_is_no_death_and_is_not_undone_by_old_news(seeds: range) -> None:
    for seed in seeds:
        world = settled(8, seed, keep_packets=4_000)
        world.command(2, Leave())
        world.run(2.0)
        assert any(isinstance(told.event, Departed) for told in world.told)
        world.power_off(2)
        world.run(15.0)
        for target, source, payload in list(world.kept):
            world.deliver(world.nodes[target], source, payload)
        world.run(15.0)
        assert not accused(world), f"seed {seed}"
        assert {verdict(world, node, 2) for node in running(world)} == {Verdict.LEFT}, f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
@pytest.mark.parametrize("has_store", [True, False], ids=["with its store", "agent_store_lost"])
def test_a_restarted_agent_is_alive_again_with_a_newer_run(has_store: bool, seeds: range) -> None:
    for seed in seeds:
        world = settled(8, seed)
        old = world.nodes[3].epoch
        world.kill(3)
        world.run(1.0 + seed % 12)
        if not has_store:
            world.nodes[3].wall_skew_s = -3_600.0  # and the clock is set back: its epoch is an old one
        world.restart(3, has_store=has_store)
        world.run(25.0)
        assert is_agreed(world), f"seed {seed}"
        epochs = {m.epoch for n in world.nodes for m in n.core.view(world.now).members if m.name == "n0003"}
        assert len(epochs) == 1, f"seed {seed}"
        assert epochs.pop() > old, f"seed {seed}"
        assert {verdict(world, a, 3) for a in range(8)} == {Verdict.ALIVE}, f"seed {seed}"
        assert accused(world) <= {3}, f"seed {seed}"


@pytest.mark.parametrize("seeds", FEW)
def test_clock_plus_1h(seeds: range) -> None:
    """One host's monotonic clock goes on an hour, as after a suspend, while somebody is unreachable."""
    for seed in seeds:
        world = settled(8, seed)
        world.power_off(7)
        world.run(6.0)
        world.jump_clock(2, 3_600.0)
        world.run(1.0)
        assert verdict(world, 2, 7) is not Verdict.FAILED, f"seed {seed}"
        world.run(25.0)
        assert accused(world) == {7}, f"seed {seed}"
        assert {verdict(world, a, 7) for a in range(7)} == {Verdict.FAILED}, f"seed {seed}"
