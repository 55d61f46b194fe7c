"""A raylet that is lost again and again: the pauses, the hold, and what is no strike."""

from dataclasses import replace

import msgspec
import pytest
from tests.kit.node import NODE_ID, RAYLET, Crank, ray_node, serving

from gpuherd.names import RayNodeId
from gpuherd.phases import Phase
from gpuherd.preflight import Check, Preflight
from gpuherd_agent import strikes
from gpuherd_agent.acts import Looked, Start, Started, Stop, Stopped, Verified, Verify

PASSED = Preflight(checks=(Check(code="x", passed=True, what=""),), session="session_1")


def rejoin(node: Crank, report: Preflight = PASSED) -> None:
    """Bring a node that is outside into Ray."""
    act = node.after(60.0, raylet_alive=False)
    assert isinstance(act, Verify)
    node.came_to(Verified(preflight=report))
    assert isinstance(node.settle(), Start)
    node.came_to(Started(raylet=RAYLET))
    node.after(1.0, raylet_alive=True)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert node.station.phase is Phase.MEMBER


def lose(node: Crank) -> None:
    """Let the raylet die, and the rest of it be cleared away."""
    assert isinstance(node.after(5.0, raylet_alive=False), Stop)
    assert node.station.obstacles == ("raylet_gone",)
    node.came_to(Stopped(clean=True))
    assert node.station.phase is Phase.OUTSIDE


@pytest.fixture
def node() -> Crank:
    made = Crank(memory=msgspec.structs.replace(serving(), raylet=None))
    rejoin(made)
    return made


def test_after_the_first_loss_the_node_rejoins_within_the_spread(node: Crank) -> None:
    lose(node)
    assert 0.0 <= node.station.not_before - node.facts.now <= strikes.SPREAD_S


def test_after_the_second_loss_it_waits(node: Crank) -> None:
    lose(node)
    rejoin(node)
    lose(node)
    assert node.station.not_before - node.facts.now >= strikes.PAUSE_S


def test_the_third_loss_within_ten_minutes_holds_the_node_until_a_person_has_looked(node: Crank) -> None:
    for _ in range(2):
        lose(node)
        rejoin(node)
    lose(node)
    (hold,) = node.memory.holds
    assert (hold.owner, hold.reason) == (
        "repair",
        "the raylet was lost 3 times in 10 min, last: the raylet ended by itself",
    )
    rehearsal = Verify(head="127.0.0.1:6379", is_rehearsal=True)
    assert node.after(3_600.0) == rehearsal, "it finds out what is in its way, and no more"
    assert node.restarted().after(3_600.0) == rehearsal, "also after a restart of the agent"
    node.memory = node.memory.without_holds((hold.id,))
    assert isinstance(node.after(1.0), Verify)


def test_losses_long_ago_count_no_more(node: Crank) -> None:
    for _ in range(4):
        lose(node)
        node.facts = replace(node.facts, now=node.facts.now + 700.0, boot_s=node.facts.boot_s + 700.0)
        rejoin(node)
    assert node.memory.holds == ()


def test_what_a_new_head_cost_is_no_strike(node: Crank) -> None:
    for number in range(2, 6):
        lose(node)
        rejoin(node, replace(PASSED, session=f"session_{number}"))
        assert node.memory.strikes == ()
    assert ("head.new_session", "session_5, before session_4") in node.news
    assert node.memory.holds == ()


def test_the_starts_of_a_fleet_are_spread_over_the_whole_time() -> None:
    pauses = [strikes.pause_s((1.0,), RayNodeId(f"{i:04x}" + NODE_ID[4:])) for i in range(0, 0x10000, 0x111)]
    assert min(pauses) == 0.0
    assert max(pauses) == pytest.approx(strikes.SPREAD_S, rel=0.01)
    assert len({round(p, 2) for p in pauses}) > 200


def test_a_reboot_ends_what_was_counted() -> None:
    assert strikes.struck((5_000.0, 5_100.0), 60.0) == (60.0,)
