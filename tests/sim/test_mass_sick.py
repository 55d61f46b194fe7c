"""After a mass false alarm at most the budget of a pool is out, however the claims raced."""

import asyncio

import pytest

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.hand import Hand
from gpuherd_sim.invariants import Judgement, judge
from gpuherd_sim.ray_fake.timing import Timing
from gpuherd_sim.virtual_time import VirtualLoop, run

NODES = 300
BUDGET = 30


@pytest.mark.parametrize(
    "helper_survives", [pytest.param(True, id="helper goes on"), pytest.param(False, id="helper dies too")]
)
def test_mass_sick_within_budget(helper_survives: bool) -> None:
    """300 nodes sick within 1 s, 100 ms key-value latency, every agent crashes right after its claim."""

    async def main(loop: VirtualLoop) -> tuple[Judgement, int, int, int]:
        fleet = Fleet(loop, FleetSpec(nodes=NODES, gpus=1, timing=Timing(kv_s=0.1)))
        hand = Hand(fleet)
        for there in fleet.hosts.values():
            there.heads.helper_survives = helper_survives
        fleet.start_agents()
        hand.serve_all()
        await fleet.until(
            "all serve", lambda: all(fleet.phase(n) is Phase.MEMBER for n in fleet.names), within_s=60
        )
        crashed: list[NodeName] = []

        def crash(point: str, node: NodeName) -> None:
            if point == "slot_claimed" and node not in crashed:
                crashed.append(node)
                fleet.kill_agent(node)
                loop.call_later(5.0, fleet.start_agent, node)

        fleet.head.at_point.append(crash)
        for there in fleet.hosts.values():
            loop.call_later(fleet.rng.random(), there.gpus.lose_all)
        await asyncio.sleep(40)
        out = sum(1 for n in fleet.names if not fleet.hosts[n].raylets.processes())
        waiting = sum(1 for n in fleet.names if (s := fleet.state(n)) is not None and s.wants_drain)
        return judge(fleet.record())["budget_is_kept"], len(crashed), out, waiting

    judged, crashed, out, waiting = run(main, until_s=600)
    assert judged.breaches == ()
    assert judged.looked_at >= 2 * BUDGET
    assert (crashed, out, waiting) == (BUDGET, BUDGET, NODES - BUDGET)
