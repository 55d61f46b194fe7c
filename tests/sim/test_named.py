"""Runs that each stand for one promise of the design, named as there. All in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpuherd.holds import OnDeadline
from gpuherd.phases import Phase
from gpuherd.wire import topics
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Online, State
from gpuherd_sim.fleet import CLUSTER, Fleet, FleetSpec
from gpuherd_sim.hand import Hand, hold
from gpuherd_sim.invariants import breaches, judge
from gpuherd_sim.virtual_time import VirtualLoop, run

Play = Callable[[Fleet, Hand], Awaitable[None]]


def play(story: Play, *, nodes: int = 1) -> None:
    """Run a story on a fleet whose nodes serve, then check that no invariant broke."""

    async def main(loop: VirtualLoop) -> list[str]:
        fleet = Fleet(loop, FleetSpec(nodes=nodes))
        hand = Hand(fleet)
        fleet.start_agents()
        hand.serve_all()
        for name in fleet.names:
            await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        await story(fleet, hand)
        return list(breaches(judge(fleet.record())))

    assert run(main, until_s=3_600) == []


def _pids(fleet: Fleet) -> list[int]:
    return [raylet.pid for raylet in fleet.head.raylets]


async def _serving(fleet: Fleet, hand: Hand) -> None:
    del hand
    fleet.head.work.submit(4, duration_s=100)
    await asyncio.sleep(2)


async def _served(fleet: Fleet, hand: Hand) -> None:
    del fleet, hand


async def _held(fleet: Fleet, hand: Hand) -> None:
    hand.order(fleet.names[0], hold("h1"))
    await fleet.until_phase(fleet.names[0], Phase.OUTSIDE, within_s=60)


async def _drained(fleet: Fleet, hand: Hand) -> None:
    hand.order(fleet.names[0], serve=False)
    await fleet.until_phase(fleet.names[0], Phase.OUTSIDE, within_s=60)


@pytest.mark.parametrize(
    ("prepare", "phase"),
    [
        pytest.param(_serving, Phase.MEMBER, id="serving"),
        pytest.param(_held, Phase.OUTSIDE, id="held"),
        pytest.param(_drained, Phase.OUTSIDE, id="drained"),
    ],
)
def test_restart_without_broker_changes_nothing(prepare: Play, phase: Phase) -> None:
    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        await prepare(fleet, hand)
        raylets, drains = _pids(fleet), len(list(fleet.journal.of("drain.asked")))
        fleet.broker.kill()
        fleet.kill_agent(name)
        await asyncio.sleep(5)
        fleet.start_agent(name)
        await asyncio.sleep(60)
        assert (_pids(fleet), len(list(fleet.journal.of("drain.asked")))) == (raylets, drains)
        fleet.broker.start(empty=True)
        await asyncio.sleep(60)
        assert fleet.phase(name) is phase
        assert (_pids(fleet), len(list(fleet.journal.of("drain.asked")))) == (raylets, drains)
        await fleet.until("tasks done", lambda: fleet.head.work.is_finished, within_s=100)

    play(story)


@pytest.mark.parametrize(
    ("prepare", "phase"),
    [
        pytest.param(_held, Phase.OUTSIDE, id="held"),
        pytest.param(_drained, Phase.OUTSIDE, id="drained"),
        pytest.param(_served, Phase.MEMBER, id="serving"),
    ],
)
def test_what_was_drained_on_purpose_stays_down_over_a_reboot(prepare: Play, phase: Phase) -> None:
    """Without a broker, so that only the node's own store can tell; one that served joins again."""

    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        await prepare(fleet, hand)
        fleet.broker.kill()
        fleet.reboot(name)
        await asyncio.sleep(90)
        assert len(fleet.head.raylets) == (1 if phase is Phase.MEMBER else 0)
        fleet.broker.start(empty=True)
        await asyncio.sleep(30)
        assert fleet.phase(name) is phase

    play(story)


def test_direct_hold_survives_empty_desired() -> None:
    """A hold that only the node knows is not ended by a newer document without holds."""

    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        fleet.kill_agent(name)
        disk = fleet.hosts[name].disk
        disk.keep(disk.history[-1][1].with_holds(hold("direct")))
        fleet.start_agent(name)
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=60)
        hand.order(name)
        await asyncio.sleep(30)
        state = fleet.state(name)
        assert state is not None
        assert state.observed is not None
        assert state.observed.generation == 2
        assert [h.id for h in state.holds] == ["direct"]
        assert state.phase is Phase.OUTSIDE

    play(story)


def test_undrain_of_old_hold_keeps_new_one() -> None:
    """An undrain that was meant for the first hold comes late: the second hold of the same owner stands."""

    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        hand.order(name, hold("first"))
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=60)
        hand.order(name, hold("second"), lifted=("first",))
        await asyncio.sleep(5)
        hand.order(name, lifted=("first",))
        await asyncio.sleep(30)
        state = fleet.state(name)
        assert state is not None
        assert [h.id for h in state.holds] == ["second"]
        assert state.phase is Phase.OUTSIDE

    play(story)


def test_will_never_erases_state() -> None:
    async def story(fleet: Fleet, hand: Hand) -> None:
        del hand
        (name,) = fleet.names
        before = fleet.broker.retained[topics.node(CLUSTER, name, "state")]
        fleet.kill_agent(name)
        await asyncio.sleep(5)
        online = decode(fleet.broker.retained[topics.node(CLUSTER, name, "online")], Online)
        assert online.online is False
        assert fleet.broker.retained[topics.node(CLUSTER, name, "state")] == before
        assert decode(before, State).phase is Phase.MEMBER
        fleet.start_agent(name)
        await asyncio.sleep(10)

    play(story)


def test_term_bomb_refused() -> None:
    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        hand.order(name, serve=False, term=hand.term + 1_001)
        await asyncio.sleep(10)
        state = fleet.state(name)
        assert state is not None
        assert state.refused is not None
        assert state.refused.why == "term_bomb"
        assert state.phase is Phase.MEMBER
        hand.order(name, serve=False)
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=30)

    play(story)


def test_garbage_while_the_name_is_looked_up_keeps_the_good_order() -> None:
    """What comes before the node knows its name to be its own waits in order, not only the last of it."""

    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        fleet.kill_agent(name)
        hand.order(name, serve=False)
        fleet.start_agent(name)
        await asyncio.sleep(0.1)
        for payload in (b"", b"NaN", b"[" * 5_000):
            fleet.broker.publish(topics.node(CLUSTER, name, "desired"), payload, retain=False)
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=60)

    play(story)


def test_drain_timeout_fires_later() -> None:
    """The stopped raylet carries the drain out when it goes on: the node leaves, and rejoins when free."""

    async def story(fleet: Fleet, hand: Hand) -> None:
        (name,) = fleet.names
        (raylet,) = fleet.head.raylets
        told: list[str] = []
        fleet.broker.watchers.append(lambda topic, _: told.append(topic.rpartition("/")[2]))
        fleet.head.stop_raylet(raylet)
        hand.order(name, hold("h1"))
        await fleet.until_phase(name, Phase.DRAINING, within_s=10)
        await asyncio.sleep(10)
        assert fleet.phase(name) is Phase.DRAINING
        assert not raylet.is_gone
        fleet.head.resume_raylet(raylet)
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=30)
        hand.order(name, lifted=("h1",))
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        assert [kind for kind in told if "fail" in kind or "stuck" in kind] == []

    play(story)


@pytest.mark.parametrize(
    ("at_s", "skew_s"),
    [
        pytest.param(None, 0.0, id="undisturbed"),
        pytest.param(30.0, 0.0, id="agent restarts in mid-drain"),
        pytest.param(None, 3_600.0, id="the wall clock jumps an hour"),
    ],
)
def test_a_deadline_counts_from_acceptance_whatever_comes(at_s: float | None, skew_s: float) -> None:
    """A person's drain that stops what still runs after 100 s: not earlier, and not later for a restart."""

    async def main(loop: VirtualLoop) -> float:
        fleet = Fleet(loop, FleetSpec(nodes=1))
        hand = Hand(fleet)
        (name,) = fleet.names
        fleet.start_agents()
        hand.serve_all()
        await fleet.until_phase(name, Phase.MEMBER, within_s=60)
        fleet.head.work.submit(1, duration_s=500)
        await asyncio.sleep(1)
        hand.order(name, hold("h1", for_s=100.0, on_deadline=OnDeadline.STOP))
        await fleet.until_phase(name, Phase.DRAINING, within_s=5)
        asked_at = next(e.at for e in fleet.journal.of("drain.asked"))
        fleet.hosts[name].clock.wall_skew_s = skew_s
        if at_s is not None:
            await asyncio.sleep(at_s)
            fleet.kill_agent(name)
            await asyncio.sleep(5)
            fleet.start_agent(name)
        await fleet.until_phase(name, Phase.OUTSIDE, within_s=200)
        return next(e.at for e in fleet.journal.of("raylet.gone")) - asked_at

    assert run(main, until_s=3_600) == pytest.approx(100.0, abs=2.0)
