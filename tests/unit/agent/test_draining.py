"""How a drain goes on: by which hold it is armed, what a lifted hold ends, what a person's word ends."""

import msgspec
import pytest
from tests.kit.node import Crank, desired, hold, ordered, ray_node, serving

from gpuherd.holds import SCALER, HoldKind, OnDeadline
from gpuherd.phases import Phase
from gpuherd.ray import DrainAnswer, DrainOutcome
from gpuherd_agent import draining
from gpuherd_agent.acts import Drain, Drained, Looked, Stop, Stopped, Verify
from gpuherd_agent.memory import NodeMemory

STOPS = hold("a", for_s=30.0, on_deadline=OnDeadline.STOP)
WAITS = hold("b", for_s=600.0)
CORDON = hold("c", HoldKind.CORDON, for_s=None)
RELEASE = hold("r", owner=SCALER, for_s=None)
ACCEPTED = Drained(answer=DrainAnswer(outcome=DrainOutcome.ACCEPTED))


def drained_by(memory: NodeMemory) -> Crank:
    """Return a node that drains under the holds of its memory."""
    node = Crank(memory=memory)
    node.settle(raylet_alive=True)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert isinstance(node.settle(), Drain)
    node.came_to(ACCEPTED)
    assert node.station.phase is Phase.DRAINING
    return node


def under(*holds: object) -> Crank:
    return drained_by(ordered(serving(), desired(2, *holds)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "id_"),
    [
        pytest.param(desired(3, lifted=("a",)), "none", id="none stands"),
        pytest.param(desired(3, CORDON, lifted=("a",)), "cordon", id="a cordon stands"),
        pytest.param(desired(3, RELEASE, lifted=("a",), serve=False), "release", id="it is not wanted"),
        pytest.param(desired(3, lifted=("a",), serve=False), "no serve", id="not wanted, without a hold"),
    ],
)
def test_a_lifted_hold_takes_its_deadline_along_whatever_else_stands(document: bytes, id_: str) -> None:
    del id_
    node = under(STOPS)
    node.memory = ordered(node.memory, document)
    act = node.settle()
    assert isinstance(act, Drain)
    assert act.order.deadline_s is None
    node.came_to(ACCEPTED)
    assert not isinstance(node.after(3_600.0), Stop)


def test_another_hold_arms_the_drain_anew_with_its_own_time_from_now_on() -> None:
    node = under(STOPS, WAITS)
    assert node.memory.drain is not None
    assert node.memory.drain.hold == "a"
    node.after(20.0)
    node.memory = ordered(node.memory, desired(3, WAITS, lifted=("a",)))
    act = node.settle() if node.station.under_way is None else None
    if act is None:
        node.came_to(Looked(reachable=True, node=ray_node()))
        act = node.settle()
    assert isinstance(act, Drain)
    assert (act.order.deadline_s, act.order.pool) == (600.0, None)
    node.came_to(ACCEPTED)
    assert node.memory.drain.on_deadline is OnDeadline.WAIT
    assert not isinstance(node.after(31.0), Stop)


def test_a_drain_asked_for_again_while_the_first_still_runs_is_armed_again() -> None:
    node = under(STOPS)
    node.memory = ordered(node.memory, desired(3, lifted=("a",)))
    node.settle()
    node.came_to(ACCEPTED)
    again = hold("d", for_s=40.0, on_deadline=OnDeadline.STOP)
    node.memory = ordered(node.memory, desired(4, again, lifted=("a",)))
    act = node.after(3.0)
    assert isinstance(act, Drain)
    assert act.order.deadline_s == 40.0


def test_a_persons_word_ends_the_drain_of_an_undrained_node_and_it_rejoins() -> None:
    node = under(STOPS)
    node.memory = draining.end_now(ordered(node.memory, desired(3, lifted=("a",))), "user:ann")
    assert isinstance(node.settle(), Stop)
    assert "user:ann" in node.station.reason
    node.came_to(Stopped(clean=True))
    assert isinstance(node.settle(raylet_alive=False), Verify)


def test_a_persons_word_is_forgotten_when_a_hold_comes_first() -> None:
    node = under(STOPS)
    node.memory = draining.end_now(ordered(node.memory, desired(3, lifted=("a",))), "user:ann")
    node.memory = ordered(node.memory, desired(4, WAITS, lifted=("a",)))
    assert isinstance(node.settle(), Drain)
    assert node.memory.drain is not None
    assert not node.memory.drain.ended_by


def test_a_persons_word_outlives_a_restart_of_the_agent() -> None:
    node = under(STOPS)
    node.memory = draining.end_now(ordered(node.memory, desired(3, lifted=("a",))), "user:ann")
    again = node.restarted()
    assert isinstance(again.settle(raylet_alive=True), Stop)


@pytest.mark.parametrize(
    ("document", "raylet", "why"),
    [
        pytest.param(desired(3, lifted=("a",)), "", "", id="undrained"),
        pytest.param(desired(3, lifted=("a",)), "ab" * 28, "", id="this raylet"),
        pytest.param(desired(3, lifted=("a",)), "cd" * 28, "raylet", id="another raylet"),
        pytest.param(desired(3, STOPS), "", "held by user:ann: a", id="held"),
        pytest.param(desired(3, lifted=("a",), serve=False), "", "does not want", id="standby"),
    ],
)
def test_what_runs_on_a_node_is_ended_only_when_it_would_rejoin(
    document: bytes, raylet: str, why: str
) -> None:
    node = under(STOPS)
    node.memory = ordered(node.memory, document)
    told = draining.refuse_end(node.station.phase, node.memory, node.rules, raylet)
    assert (why in told) is True
    assert bool(told) is bool(why)


def test_what_runs_on_a_serving_node_is_not_ended() -> None:
    told = draining.refuse_end(Phase.MEMBER, serving(), Crank().rules, "")
    assert "does not drain" in told


def test_a_record_of_an_older_agent_is_disarmed_as_before() -> None:
    node = under(STOPS)
    drain = node.memory.drain
    assert drain is not None
    node.memory = msgspec.structs.replace(node.memory, drain=msgspec.structs.replace(drain, hold=None))
    node.memory = ordered(node.memory, desired(3, lifted=("a",)))
    act = node.settle()
    assert isinstance(act, Drain)
    assert act.order.deadline_s is None
