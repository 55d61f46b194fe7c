"""How much of its checks a node that has waited outside still has to make when it is wanted. Virtual time."""

import asyncio

import pytest

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.hand import Hand
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.virtual_time import VirtualLoop, run

SLOW_S = 3.0
"""What the head takes for each answer."""


async def _standby(loop: VirtualLoop, waited_s: float) -> tuple[Fleet, Hand, NodeName]:
    fleet = Fleet(loop, FleetSpec(nodes=1, timing=Timing(rpc_s=SLOW_S)))
    hand = Hand(fleet)
    (name,) = fleet.names
    hand.order(name, serve=False)
    fleet.start_agents()
    await asyncio.sleep(waited_s)
    return fleet, hand, name


@pytest.mark.parametrize(
    ("waited_s", "is_warm"),
    [
        pytest.param(20.0, True, id="rehearsed"),
        pytest.param(200.0, True, id="rehearsed again and again"),
        pytest.param(2.5, False, id="in the middle of its first rehearsal"),
    ],
)
def test_a_node_that_has_rehearsed_starts_ray_within_half_a_second(waited_s: float, is_warm: bool) -> None:
    async def main(loop: VirtualLoop) -> float:
        fleet, hand, name = await _standby(loop, waited_s)
        ordered_at = loop.time()
        hand.order(name)
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        (entry,) = fleet.journal.of("raylet.ordered")
        return entry.at - ordered_at

    took_s = run(main, until_s=3_600)
    assert (took_s <= 0.5) is is_warm
    assert took_s < SLOW_S + 0.5


def test_a_head_that_has_gone_since_the_rehearsal_is_named_and_ray_is_not_started() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, hand, name = await _standby(loop, 20.0)
        fleet.hosts[name].heads.is_cut = True
        hand.order(name)
        await asyncio.sleep(20)
        state = fleet.state(name)
        assert state is not None
        assert state.obstacles == ("head_unreachable",)
        assert fleet.head.raylets == []

    run(main, until_s=3_600)


def test_a_node_in_standby_tells_what_would_be_in_its_way_before_it_is_wanted() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, _, name = await _standby(loop, 20.0)
        fleet.hosts[name].heads.is_cut = True
        await asyncio.sleep(90)
        state = fleet.state(name)
        assert state is not None
        assert (state.phase, state.obstacles) == (Phase.OUTSIDE, ("head_unreachable",))
        fleet.hosts[name].heads.is_cut = False
        await asyncio.sleep(90)
        state = fleet.state(name)
        assert state is not None
        assert state.obstacles == ()

    run(main, until_s=3_600)
