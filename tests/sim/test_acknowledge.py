"""A person's word from the scaler's door to the node's verdict and back, in virtual time."""

import asyncio

from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.rest import OperationState
from gpuherd_autoscaler.commander import CommandWish
from gpuherd_sim.fleet import Fleet, FleetSpec
from gpuherd_sim.invariants import breaches, judge
from gpuherd_sim.virtual_time import VirtualLoop, run


async def _begin(loop: VirtualLoop) -> tuple[Fleet, NodeName]:
    fleet = Fleet(loop, FleetSpec(nodes=1, min=1, max=1))
    (name,) = fleet.names
    fleet.start_scaler()
    fleet.start_agents()
    await fleet.until_phase(name, Phase.MEMBER, within_s=60)
    return fleet, name


async def _told(
    fleet: Fleet, name: NodeName, verb: str = "ack", **arguments: str
) -> tuple[OperationState, str]:
    """Send a command and return how it ended."""
    commander, people = fleet.scaler_host.commander, fleet.scaler_host.people
    assert commander is not None
    assert people is not None
    wish = CommandWish(node=name, verb=verb, by="ann", arguments=arguments, reason="board swapped")
    id_ = commander.command(wish).id
    await fleet.until("an end", lambda: not people.operation(id_).is_open, within_s=200)
    return people.operation(id_).state, people.operation(id_).result


def test_an_acknowledged_finding_ends_and_the_node_serves_again() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        fleet, name = await _begin(loop)
        host = fleet.hosts[name]
        host.gpus.lose_all()
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=300)
        host.gpus.recover()
        await asyncio.sleep(30)
        assert fleet.phase(name) is Phase.OUTSIDE
        state, result = await _told(fleet, name, finding="gpu_lost")
        assert (state, result.split(";")[0]) == (OperationState.DONE, "ended gpu_lost of the node")
        await fleet.until_phase(name, Phase.MEMBER, within_s=120)
        fleet.kill_agent(name)
        fleet.start_agent(name)
        await asyncio.sleep(20)
        told = fleet.state(name)
        assert told is not None
        assert told.verdict.findings == ()
        return list(breaches(judge(fleet.record())))

    assert run(main, until_s=3_600) == []


def test_a_finding_whose_cause_still_stands_comes_back() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _begin(loop)
        fleet.hosts[name].gpus.lose_all()
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=300)
        assert (await _told(fleet, name))[0] is OperationState.DONE
        await asyncio.sleep(10)
        told = fleet.state(name)
        assert told is not None
        assert [f.rule for f in told.verdict.findings] == ["gpu_lost"]

    run(main, until_s=3_600)


def test_what_nobody_latched_cannot_be_acknowledged_and_an_unknown_verb_is_refused() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _begin(loop)
        state, result = await _told(fleet, name, finding="gpu_lost")
        assert (state, result) == (
            OperationState.FAILED,
            "refused: no latched finding is meant by gpu_lost; latched: none",
        )
        assert "not known to this agent" in (await _told(fleet, name, verb="dance"))[1]

    run(main, until_s=3_600)


def test_verify_tells_every_check_and_accept_takes_the_boards_that_are_there_now() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _begin(loop)
        commander, people = fleet.scaler_host.commander, fleet.scaler_host.people
        assert commander is not None
        assert people is not None
        asked = commander.command(CommandWish(node=name, verb="verify", by="ann"))
        await fleet.until("an end", lambda: not people.operation(asked.id).is_open, within_s=60)
        ended = people.operation(asked.id)
        assert ended.state is OperationState.DONE
        assert "gpu_identity" in ended.output
        assert "REFUSES" not in ended.output
        host = fleet.hosts[name]
        host.gpus.replaced[3] = "swapped"
        fleet.kill_agent(name)
        for raylet in host.raylets.processes():
            fleet.head.kill_raylet(raylet, cause="the host was opened")
        fleet.start_agent(name)
        await fleet.until("seven serve", lambda: _offered(fleet) == [7], within_s=120)
        await asyncio.sleep(100)
        assert _offered(fleet) == [7]
        asked = commander.command(CommandWish(node=name, verb="verify", by="ann"))
        await fleet.until("an end", lambda: not people.operation(asked.id).is_open, within_s=60)
        assert "was not here when this host was accepted" in people.operation(asked.id).output
        assert (await _told(fleet, name, verb="accept"))[0] is OperationState.DONE
        await fleet.until("eight serve", lambda: _offered(fleet) == [8], within_s=200)

    run(main, until_s=3_600)


def test_boards_that_nobody_accepted_keep_the_node_out_when_too_few_others_are_left() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _begin(loop)
        host = fleet.hosts[name]
        host.gpus.replaced.update({i: f"swapped-{i}" for i in range(5)})
        fleet.kill_agent(name)
        for raylet in host.raylets.processes():
            fleet.head.kill_raylet(raylet, cause="the host was opened")
        fleet.start_agent(name)
        await fleet.until("a refusal", lambda: "was not here" in _reason(fleet, name), within_s=120)
        assert (await _told(fleet, name, verb="accept"))[0] is OperationState.DONE
        await fleet.until_phase(name, Phase.MEMBER, within_s=600)

    run(main, until_s=3_600)


def _offered(fleet: Fleet) -> list[int]:
    return [len(raylet.offered) for raylet in fleet.head.raylets if not raylet.is_gone]


def _reason(fleet: Fleet, name: NodeName) -> str:
    state = fleet.state(name)
    return state.reason if state else ""


def test_a_repair_is_planned_for_the_worst_finding_and_names_every_guard() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet, name = await _begin(loop)
        state, result = await _told(fleet, name, verb="repair", dry_run="yes")
        assert (state, result) == (
            OperationState.FAILED,
            "refused: nothing is found that a repair could mend",
        )
        fleet.hosts[name].gpus.lose_all()
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=300)
        assert "nothing carries repairs out" in (await _told(fleet, name, verb="repair"))[1]
        state, result = await _told(fleet, name, verb="repair", dry_run="yes")
        assert (state, result) == (
            OperationState.DONE,
            "reboot of the node for gpu_lost: it would not be done",
        )

    run(main, until_s=3_600)
