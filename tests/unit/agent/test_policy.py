"""What a node does next: each phase, its acts and the ways out of it."""

from dataclasses import replace

import msgspec
import pytest
from tests.kit.node import (
    GPUS,
    HEALTHY,
    RAYLET,
    RULES,
    Crank,
    desired,
    hold,
    ordered,
    ray_node,
    serving,
    sick,
)

from gpuherd.health import Action, Severity, Verdict
from gpuherd.holds import HoldKind, OnDeadline
from gpuherd.phases import Phase
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import DrainAnswer, DrainOutcome, DrainReason, RayStatus
from gpuherd_agent.acts import (
    Drain,
    Drained,
    Look,
    Looked,
    Release,
    Released,
    Start,
    Started,
    StartFailed,
    Stop,
    Stopped,
    Verified,
    Verify,
)
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.refusals import JoinRefusal

PASSED = Verified(preflight=Preflight(checks=(Check(code="x", passed=True, what="fine"),)))
FAILED = Verified(
    preflight=Preflight(checks=(Check(code="x", passed=False, what="no Ray", mend="install it"),))
)


def joined(memory: NodeMemory | None = None) -> Crank:
    """Return a member by way of adoption."""
    node = Crank(memory=memory or serving())
    assert isinstance(node.settle(raylet_alive=True), Look)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert node.station.phase is Phase.MEMBER
    return node


def draining(memory: NodeMemory | None = None, **facts: object) -> Crank:
    node = joined(memory)
    assert isinstance(node.settle(**facts), Drain)
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.ACCEPTED)))
    assert node.station.phase is Phase.DRAINING
    return node


def test_without_orders_a_fresh_node_stays_outside() -> None:
    node = Crank()
    act = node.settle()
    assert act is None or (isinstance(act, Verify) and act.is_rehearsal)
    assert (node.station.phase, node.station.reason) == (Phase.OUTSIDE, "no orders yet")


def test_a_wanted_node_checks_starts_looks_and_is_a_member() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    assert isinstance(node.settle(), Verify)
    node.came_to(PASSED)
    start = node.settle()
    assert isinstance(start, Start)
    assert start.order.gpus == GPUS
    node.came_to(Started(raylet=RAYLET))
    assert isinstance(node.settle(raylet_alive=True), Look)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert node.station.phase is Phase.MEMBER
    assert node.memory.raylet == RAYLET


def test_a_failed_check_names_the_mend_and_is_made_again_later_each_time() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    pauses = []
    for _ in range(3):
        assert isinstance(node.settle(), Verify)
        node.came_to(FAILED)
        assert node.station.phase is Phase.OUTSIDE
        assert node.station.reason == "no Ray (install it)"
        assert node.settle() is None
        pauses.append(node.station.not_before - node.facts.now)
        node.facts = replace(node.facts, now=node.station.not_before)
    assert pauses[0] < pauses[1] < pauses[2]


def test_a_start_that_failed_leaves_the_node_outside_with_the_code() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    node.settle()
    node.came_to(PASSED)
    node.settle()
    node.came_to(StartFailed(code=JoinRefusal.START_TIMED_OUT, detail="60 s"))
    assert node.station.phase is Phase.OUTSIDE
    assert "start_timed_out" in node.station.reason


def test_a_hold_that_arrives_between_check_and_start_stops_the_join() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    node.settle()
    node.came_to(PASSED)
    node.memory = ordered(node.memory, desired(2, hold("stop")))
    assert node.settle() is None
    assert node.station.phase is Phase.OUTSIDE


def test_a_raylet_that_the_head_never_lists_is_stopped() -> None:
    node = Crank(memory=serving())
    assert isinstance(node.settle(raylet_alive=True), Look)
    node.came_to(Looked(reachable=True))
    act = node.after(61.0)
    assert isinstance(act, Stop)
    node.came_to(Stopped(clean=True))
    assert node.station.phase is Phase.OUTSIDE


def test_a_lost_gpu_leads_to_a_drain_that_must_win_a_slot() -> None:
    node = joined()
    act = node.settle(verdict=sick(), healthy=GPUS[:3] + GPUS[4:])
    assert isinstance(act, Drain)
    assert act.order.reason is DrainReason.PREEMPTION
    assert (act.order.pool, act.order.budget) == ("h200", 1)
    assert act.order.deadline_s == 900.0
    assert node.memory.drain is not None
    assert node.memory.drain.on_deadline is OnDeadline.WAIT


def test_the_drain_is_on_record_before_ray_is_asked() -> None:
    node = joined()
    node.settle(verdict=sick())
    again = node.restarted()
    assert isinstance(again.settle(), Look)
    assert again.station.phase is Phase.DRAINING


def test_with_no_gpu_left_the_deadline_is_short_and_stops() -> None:
    node = draining(verdict=sick(gpu=None, reason="no driver"), healthy=())
    act = node.after(61.0)
    assert isinstance(act, Stop)
    assert "deadline" in node.station.reason


@pytest.mark.parametrize(
    ("outcome", "wants"),
    [
        pytest.param(DrainOutcome.NO_SLOT, True, id="budget used up"),
        pytest.param(DrainOutcome.UNREACHABLE, True, id="head away"),
    ],
)
def test_without_a_slot_or_a_head_the_node_stays_and_says_so(outcome: DrainOutcome, wants: bool) -> None:
    node = joined()
    node.settle(verdict=sick())
    node.came_to(Drained(answer=DrainAnswer(outcome=outcome, message="gpu-2 is out")))
    assert node.station.phase is Phase.MEMBER
    assert bool(node.station.wants_drain) is wants
    assert "gpu-2 is out" in node.station.wants_drain
    assert node.memory.drain is None
    assert isinstance(node.after(3.0), Drain)


def test_no_answer_counts_as_accepted() -> None:
    node = joined()
    node.settle(verdict=sick())
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.UNKNOWN, message="time-out")))
    assert node.station.phase is Phase.DRAINING
    assert node.memory.drain is not None
    assert not node.memory.drain.is_confirmed


def test_a_scale_down_is_asked_gently_and_a_no_is_taken() -> None:
    node = joined()
    node.memory = ordered(node.memory, desired(2, serve=False))
    act = node.settle()
    assert isinstance(act, Drain)
    assert (act.order.reason, act.order.pool, act.order.deadline_s) == (
        DrainReason.IDLE_TERMINATION,
        None,
        None,
    )
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.REJECTED, message="no longer idle")))
    assert node.station.phase is Phase.MEMBER
    assert node.station.wants_drain == ""
    assert isinstance(node.after(6.0), Drain)


def test_a_users_drain_needs_no_slot_and_waits_an_hour() -> None:
    node = joined()
    node.memory = ordered(node.memory, desired(2, hold("fan")))
    act = node.settle()
    assert isinstance(act, Drain)
    assert (act.order.pool, act.order.deadline_s) == (None, 3_600.0)


def test_a_drained_node_sweeps_and_stays_out_while_held() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan"))))
    stop = node.settle(raylet_alive=False)
    assert stop == Stop(raylet=RAYLET)
    node.came_to(Stopped(clean=True))
    assert node.settle() is None
    assert (node.station.phase, node.memory.raylet, node.memory.drain) == (Phase.OUTSIDE, None, None)
    assert node.station.reason == "held by user:ann: fan"


def test_a_process_that_will_not_die_is_told_and_tried_again() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan"))))
    node.settle(raylet_alive=False)
    node.came_to(Stopped(clean=False))
    assert node.station.phase is Phase.LEAVING
    assert node.settle() is None
    assert isinstance(node.after(31.0), Stop)


def test_lifting_the_last_hold_disarms_the_deadline_first() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan", for_s=30.0, on_deadline=OnDeadline.STOP))))
    node.memory = ordered(node.memory, desired(3, lifted=("fan",)))
    act = node.settle()
    assert isinstance(act, Drain)
    assert act.order.deadline_s is None
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.ACCEPTED)))
    assert not isinstance(node.after(3_600.0), Stop)
    assert node.station.phase is Phase.DRAINING


def test_an_undrained_node_rejoins_once_it_is_empty() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan", for_s=None))))
    node.memory = ordered(node.memory, desired(3, lifted=("fan",)))
    assert isinstance(node.settle(raylet_alive=False), Stop)
    node.came_to(Stopped(clean=True))
    assert isinstance(node.settle(), Verify)


def test_a_passed_deadline_that_waits_is_told_once() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan", for_s=30.0))))
    for _ in range(3):
        act = node.after(40.0)
        if isinstance(act, Look):
            node.came_to(Looked(reachable=True, node=ray_node(RayStatus.DRAINING)))
    assert [kind for kind, _ in node.news].count("drain.overdue") == 1


def test_a_stronger_hold_asks_again_with_its_own_terms() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan", HoldKind.CORDON, for_s=None))))
    act = node.settle(verdict=sick(gpu=None), healthy=())
    assert isinstance(act, Drain)
    assert act.order.deadline_s == 60.0


def test_a_drain_that_ray_forgot_is_asked_again() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan", for_s=None))))
    look = node.after(16.0)
    assert isinstance(look, Look)
    node.came_to(Looked(reachable=True, node=ray_node(RayStatus.RUNNING)))
    assert isinstance(node.settle(), Drain)


def test_a_raylet_that_died_is_swept_and_the_node_rejoins() -> None:
    node = joined()
    assert isinstance(node.settle(raylet_alive=False), Stop)
    node.came_to(Stopped(clean=True))
    assert isinstance(node.settle(), Verify)


def test_one_answer_that_does_not_list_us_is_not_enough() -> None:
    node = joined()
    assert isinstance(node.after(31.0), Look)
    node.came_to(Looked(reachable=True))
    assert isinstance(node.settle(), Look)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert node.settle() is None
    assert node.station.phase is Phase.MEMBER


def test_two_answers_that_do_not_list_us_end_a_zombie() -> None:
    node = joined()
    node.after(31.0)
    node.came_to(Looked(reachable=True, node=ray_node(RayStatus.DEAD)))
    node.settle()
    node.came_to(Looked(reachable=True, node=ray_node(RayStatus.DEAD)))
    assert isinstance(node.settle(), Stop)


def test_a_head_that_is_away_changes_nothing() -> None:
    node = joined()
    for _ in range(10):
        if isinstance(node.after(31.0), Look):
            node.came_to(Looked(reachable=False))
    assert node.station.phase is Phase.MEMBER
    assert node.station.head_reachable is False


def test_the_slot_is_freed_when_the_node_serves_again() -> None:
    node = joined()
    node.settle(verdict=sick(Action.DRAIN))
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.UNREACHABLE)))
    assert node.memory.may_hold_slot
    act = node.after(3.0, verdict=HEALTHY)
    assert isinstance(act, Release)
    node.came_to(Released(done=False))
    assert node.memory.may_hold_slot
    assert isinstance(node.after(3.0), Release)
    node.came_to(Released(done=True))
    assert not node.memory.may_hold_slot


def test_a_health_hold_ends_with_its_finding_and_keeps_a_users_hold() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1, hold("fan"))))
    node.settle(verdict=sick())
    assert {h.owner for h in node.memory.holds} == {"health", "user:ann"}
    node.settle(verdict=HEALTHY)
    assert [h.owner for h in node.memory.holds] == ["user:ann"]


def test_a_worse_verdict_replaces_the_health_hold() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    node.settle(verdict=sick(Action.CORDON))
    node.settle(verdict=sick(Action.EVICT))
    assert [h.kind for h in node.memory.holds] == [HoldKind.EVICT]


def test_a_fleet_that_observes_holds_nobody() -> None:
    node = joined(observing())
    assert node.settle(verdict=sick()) is None
    assert node.memory.holds == ()


def observing() -> NodeMemory:
    return msgspec.structs.replace(serving(), fleet_observes=True)


def test_a_draining_raylet_is_adopted_as_draining_only_within_its_boot() -> None:
    node = draining(ordered(serving(), desired(2, hold("fan"))))
    other_boot = node.restarted()
    other_boot.settle(boot_id="boot-2", raylet_alive=False)
    assert other_boot.station.phase is Phase.OUTSIDE
    assert other_boot.memory.drain is None


def test_a_latched_finding_is_on_record_with_its_boot() -> None:
    node = joined()
    node.settle(verdict=sick(), latched=sick().findings)
    assert (node.memory.latched, node.memory.latched_boot_id) == (sick().findings, "boot-1")
    node.settle(verdict=HEALTHY, latched=())
    assert (node.memory.latched, node.memory.latched_boot_id) == ((), "")


def test_while_health_is_unknown_no_hold_is_lifted() -> None:
    node = joined()
    node.settle(verdict=sick())
    again = node.restarted()
    again.settle(verdict=Verdict(severity=Severity.UNKNOWN))
    assert [h.owner for h in again.memory.holds] == ["health"]


def test_the_next_head_of_the_list_is_tried_when_one_does_not_answer() -> None:
    node = Crank(memory=ordered(NodeMemory(), desired(1)), rules=replace(RULES, heads=("a:1", "b:2")))
    seen = []
    for code in ("head_refused", "head_silent", "gpu_count", "head_unresolved"):
        act = node.after(600.0)
        assert isinstance(act, Verify)
        seen.append(act.head)
        node.came_to(Verified(preflight=Preflight(checks=(Check(code=code, passed=False, what="no"),))))
        assert node.station.obstacles == (code,)
    assert seen == ["a:1", "b:2", "a:1", "a:1"]
