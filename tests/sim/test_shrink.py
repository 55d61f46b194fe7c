"""One GPU of eight falls off the bus, and later it is mended: the node's whole way, in virtual time."""

import asyncio

from gpuherd.phases import Phase
from gpuherd.rest import OperationState
from gpuherd_autoscaler.commander import CommandWish
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.invariants import breaches, judge
from gpuherd_sim.virtual_time import VirtualLoop, run


def _offered(fleet: Fleet) -> list[int]:
    return [len(raylet.offered) for raylet in fleet.head.raylets if not raylet.is_gone]


def test_eight_become_seven_and_eight_again_and_no_task_is_lost() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        fleet = Fleet(loop, FleetSpec(nodes=1, min=1, max=1))
        (name,) = fleet.names
        fleet.start_scaler()
        fleet.start_agents()
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        work = fleet.head.work
        work.submit(20, duration_s=30)
        await asyncio.sleep(5)
        fleet.hosts[name].gpus.lose(3)
        await fleet.until("seven GPUs serve", lambda: _offered(fleet) == [7], within_s=200)
        await fleet.until("all is done", lambda: all(t.is_finished for t in work.tasks), within_s=300)
        assert max(task.attempts for task in work.tasks) == 1
        state = fleet.state(name)
        assert state is not None
        assert (state.phase, state.verdict.severity.value, state.verdict.action.value) == (
            Phase.MEMBER,
            "degraded",
            "watch",
        )
        assert [gpu.healthy for gpu in state.gpus].count(False) == 1
        fleet.hosts[name].gpus.recover()
        await asyncio.sleep(120)
        assert _offered(fleet) == [7]
        commander, people = fleet.scaler_host.commander, fleet.scaler_host.people
        assert commander is not None
        assert people is not None
        operation = commander.command(CommandWish(node=name, verb="ack", by="ann", reason="reseated"))
        await fleet.until("eight GPUs serve", lambda: _offered(fleet) == [8], within_s=200)
        assert people.operation(operation.id).state is OperationState.DONE
        return list(breaches(judge(fleet.record())))

    assert run(main, until_s=3_600) == []


def test_an_agent_that_restarts_while_it_serves_with_seven_changes_nothing() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        fleet = Fleet(loop, FleetSpec(nodes=1, min=1, max=1))
        (name,) = fleet.names
        fleet.start_scaler()
        fleet.start_agents()
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        fleet.hosts[name].gpus.lose(3)
        await fleet.until("seven GPUs serve", lambda: _offered(fleet) == [7], within_s=200)
        pids = [raylet.pid for raylet in fleet.head.raylets if not raylet.is_gone]
        fleet.kill_agent(name)
        fleet.start_agent(name)
        await asyncio.sleep(200)
        assert [raylet.pid for raylet in fleet.head.raylets if not raylet.is_gone] == pids
        return list(breaches(judge(fleet.record())))

    assert run(main, until_s=3_600) == []
