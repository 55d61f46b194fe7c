"""Two autoscalers on one fleet, in virtual time: one leads, the other waits."""

import asyncio
import dataclasses
import random

import pytest

from gpuherd.errors import Conflict
from gpuherd.names import OperationId
from gpuherd.phases import Phase
from gpuherd_autoscaler.leadership import GRACE_S, TAKE_OVER_S
from gpuherd_autoscaler.people import DrainWish
from gpuherd_sim import scaler_program
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.memory_ledger import MemoryLedger
from gpuherd_sim.process import Process
from gpuherd_sim.scaler_program import ScalerHost
from gpuherd_sim.virtual_time import VirtualLoop, run

_TURNS_S = 60.0


def second_host(fleet: Fleet) -> ScalerHost:
    """Return the host of another autoscaler with a ledger of its own and the same settings."""
    return dataclasses.replace(
        fleet.scaler_host,
        ledger=MemoryLedger(),
        holder="scaler-2",
        rng=random.Random("second"),  # noqa: S311  repeatable, not secret
        people=None,
        commander=None,
        loop=None,
    )


def why_idle(host: ScalerHost) -> str:
    assert host.loop is not None
    return host.loop.outcome.lead


def drain(host: ScalerHost, fleet: Fleet) -> OperationId:
    assert host.people is not None
    return host.people.drain(DrainWish(node=fleet.names[0], by="ann", reason="fan")).id


def test_of_two_scalers_started_by_mistake_one_leads_and_the_other_keeps_silent() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet = Fleet(loop, FleetSpec(nodes=3))
        fleet.start_agents()
        fleet.start_scaler()
        second = second_host(fleet)
        Process(loop, "scaler 2", scaler_program.program(second))
        await asyncio.sleep(_TURNS_S)
        idle = [host for host in (fleet.scaler_host, second) if why_idle(host)]
        assert len(idle) == 1
        assert "leads under term" in why_idle(idle[0])
        with pytest.raises(Conflict, match="waits as standby"):
            drain(idle[0], fleet)
        fleet.head.work.submit(8, duration_s=60.0)
        await fleet.until(
            "a node serves", lambda: Phase.MEMBER in map(fleet.phase, fleet.names), within_s=120
        )
        assert not idle[0].ledger.orders
        (leader,) = (host for host in (fleet.scaler_host, second) if host is not idle[0])
        assert leader.ledger.orders

    run(main, until_s=1_000)


def test_the_standby_takes_over_from_a_leader_that_died_and_the_nodes_follow_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet = Fleet(loop, FleetSpec(nodes=3))
        fleet.start_agents()
        fleet.start_scaler()
        await asyncio.sleep(_TURNS_S)
        second = second_host(fleet)
        Process(loop, "scaler 2", scaler_program.program(second))
        await asyncio.sleep(_TURNS_S)
        assert "leads" in why_idle(second)
        fleet.head.work.submit(8, duration_s=600.0)
        await fleet.until(
            "a node serves", lambda: Phase.MEMBER in map(fleet.phase, fleet.names), within_s=120
        )
        fleet.kill_scaler()
        took_s = await fleet.until(
            "the second has a term", lambda: second.ledger.term > 0, within_s=2 * TAKE_OVER_S
        )
        assert took_s >= TAKE_OVER_S - 5.0
        assert second.ledger.term > fleet.scaler_host.ledger.term
        assert "took the lead just now" in why_idle(second)
        await asyncio.sleep(GRACE_S + 10.0)
        assert why_idle(second) == ""
        drain(second, fleet)
        await fleet.until(
            "the node obeys the second", lambda: fleet.phase(fleet.names[0]) is not Phase.MEMBER, within_s=60
        )

    run(main, until_s=2_000)
