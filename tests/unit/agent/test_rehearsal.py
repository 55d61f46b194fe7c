"""What a node that waits outside finds out about a join that nobody asks of it."""

import pytest
from tests.kit.node import RAYLET, Crank, desired, hold, ordered

from gpuherd.phases import Phase
from gpuherd.preflight import Check, Preflight
from gpuherd_agent.acts import Started, Verified, Verify
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_agent.warmth import EVERY_S, FIRST_S

PASSED = Verified(preflight=Preflight(checks=(Check(code="x", passed=True, what="fine"),)))


def refused(code: str) -> Verified:
    return Verified(preflight=Preflight(checks=(Check(code=code, passed=False, what="no"),)))


def standby(*holds: object) -> Crank:
    """Return a node that nobody wants, or that is held."""
    memory = ordered(NodeMemory(), desired(1, *holds, serve=bool(holds)))  # type: ignore[arg-type]
    return Crank(memory=memory)


def rehearsing(node: Crank) -> Crank:
    act = node.after(FIRST_S)
    assert isinstance(act, Verify)
    assert act.is_rehearsal
    return node


@pytest.mark.parametrize("holds", [(), (hold("fan"),)], ids=["standby", "held"])
def test_a_node_that_waits_outside_rehearses_soon_and_then_now_and_then(holds: tuple[object, ...]) -> None:
    node = standby(*holds)
    assert node.settle(now=0.0) is None
    rehearsing(node).came_to(PASSED)
    assert node.after(EVERY_S - 1.0) is None
    assert isinstance(node.after(1.0), Verify)
    assert node.station.phase is Phase.OUTSIDE


def test_what_would_be_in_the_way_is_told_once_and_gone_when_it_is_mended() -> None:
    node = standby()
    node.settle(now=0.0)
    rehearsing(node).came_to(refused("head_silent"))
    assert node.station.obstacles == ("head_silent",)
    node.after(EVERY_S)
    node.came_to(refused("head_silent"))
    assert [kind for kind, _ in node.news] == ["join.doubtful"]
    assert "standby" in node.station.reason
    node.after(EVERY_S)
    node.came_to(PASSED)
    assert node.station.obstacles == ()


def test_an_order_waits_for_no_rehearsal() -> None:
    node = standby()
    node.settle(now=0.0)
    rehearsing(node)
    node.memory = ordered(node.memory, desired(2))
    act = node.settle()
    assert act == Verify(head="127.0.0.1:6379")
    assert node.station.phase is Phase.VERIFYING


def test_a_hold_does_not_end_a_rehearsal() -> None:
    node = standby()
    node.settle(now=0.0)
    rehearsing(node)
    node.memory = ordered(node.memory, desired(2, hold("fan")))
    assert node.settle() is None
    node.came_to(PASSED)
    assert node.station.phase is Phase.OUTSIDE


def test_what_took_a_held_node_out_is_not_forgotten_by_a_rehearsal_that_passes() -> None:
    node = standby(hold("strikes", owner="repair"))
    node.station = node.station.__class__(obstacles=(JoinRefusal.RAYLET_GONE.value, "head_silent"))
    node.settle(now=0.0)
    rehearsing(node).came_to(PASSED)
    assert node.station.obstacles == ("raylet_gone",)


def test_a_member_never_rehearses() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    node.settle()
    node.came_to(PASSED)
    node.settle()
    node.came_to(Started(raylet=RAYLET))
    assert not isinstance(node.after(2 * EVERY_S, raylet_alive=True), Verify)
