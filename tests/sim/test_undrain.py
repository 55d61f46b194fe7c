"""Taking a drain back, in virtual time: gently, and at once at the cost of what still runs."""

import asyncio

import pytest

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.rest import OperationState
from gpuherd_autoscaler.commander import Commander, CommandWish
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.invariants import breaches, judge
from gpuherd_sim.virtual_time import VirtualLoop, run

WORK_S = 300.0


async def _draining(loop: VirtualLoop) -> tuple[Fleet, NodeName]:
    """Return a fleet whose one node drains with work on it."""
    fleet = Fleet(loop, FleetSpec(nodes=1, min=1, max=1))
    (name,) = fleet.names
    fleet.start_scaler()
    fleet.start_agents()
    await fleet.until_phase(name, Phase.MEMBER, within_s=60)
    fleet.head.work.submit(2, duration_s=WORK_S)
    await asyncio.sleep(5)
    _people(fleet).drain(DrainWish(node=name, by="ann", reason="fan"))
    await fleet.until_phase(name, Phase.DRAINING, within_s=30)
    return fleet, name


def _people(fleet: Fleet) -> People:
    assert fleet.scaler_host.people is not None
    return fleet.scaler_host.people


async def _end(fleet: Fleet, name: NodeName, *, raylet: str = "") -> tuple[OperationState, str]:
    """Send the command and return how it ended."""
    commander, people = fleet.scaler_host.commander, _people(fleet)
    assert isinstance(commander, Commander)
    wish = CommandWish(node=name, verb="end-drain", by="ann", arguments={"raylet": raylet})
    id_ = commander.command(wish).id
    await fleet.until("an end", lambda: not people.operation(id_).is_open, within_s=60)
    return people.operation(id_).state, people.operation(id_).result


def test_an_undrained_node_lets_its_work_end_and_then_rejoins() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        fleet, name = await _draining(loop)
        undrain = _people(fleet).undrain(name, "ann").id
        await asyncio.sleep(60)
        assert fleet.phase(name) is Phase.DRAINING
        took_s = await fleet.until_phase(name, Phase.MEMBER, within_s=WORK_S)
        assert took_s > WORK_S / 2
        await fleet.until("done", lambda: not _people(fleet).operation(undrain).is_open, within_s=10)
        assert _people(fleet).operation(undrain).result == "the node serves"
        return list(breaches(judge(fleet.record())))

    assert run(main, until_s=3_600) == []


@pytest.mark.parametrize("restarts", [False, True], ids=["", "the agent restarts in between"])
def test_what_is_left_is_ended_at_a_persons_word_and_the_node_rejoins_at_once(restarts: bool) -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _draining(loop)
        _people(fleet).undrain(name, "ann")
        assert (await _end(fleet, name))[0] is OperationState.DONE
        if restarts:
            fleet.kill_agent(name)
            await asyncio.sleep(1)
            fleet.start_agent(name)
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        assert len(fleet.head.raylets) == 1

    run(main, until_s=3_600)


def test_what_runs_on_a_held_node_or_on_another_raylet_is_not_ended() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _draining(loop)
        state, result = await _end(fleet, name)
        assert (state, result) == (
            OperationState.FAILED,
            "refused: held by user:ann: fan; the node would stay outside",
        )
        _people(fleet).undrain(name, "ann")
        await asyncio.sleep(5)
        state, result = await _end(fleet, name, raylet="cd" * 28)
        assert state is OperationState.FAILED
        assert "ask again" in result
        assert fleet.phase(name) is Phase.DRAINING
        await fleet.until("tasks done", lambda: fleet.head.work.is_finished, within_s=2 * WORK_S)

    run(main, until_s=3_600)
