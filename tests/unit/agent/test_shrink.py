"""Shrink to healthy: what concerns a node that offers only some of its GPUs, and when it grows back."""

from dataclasses import replace

import msgspec
import pytest
from tests.kit.node import GPUS, HEALTHY, RAYLET, RULES, Crank, desired, ordered, ray_node, serving

from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.names import GpuUuid, RayNodeId
from gpuherd.phases import Phase
from gpuherd.preflight import Check, Preflight
from gpuherd.ray import DrainAnswer, DrainOutcome, DrainReason
from gpuherd_agent import policy, shrink
from gpuherd_agent.acts import (
    Drain,
    Drained,
    Looked,
    Release,
    Released,
    Start,
    Started,
    Stop,
    Stopped,
    Verified,
    Verify,
)
from gpuherd_agent.actuators.ray_tree import parse_offered
from gpuherd_agent.admission import JoinFacts, preflight
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.rules import dropout

SEVEN = GPUS[:7]
EIGHT_RULES = replace(RULES, declared=8)


def found(
    gpu: GpuUuid | None, rule: str = dropout.LOST, action: Action = Action.EVICT, **evidence: int
) -> Finding:
    return Finding(
        rule=rule, severity=Severity.CRITICAL, action=action, reason=rule, gpu=gpu, evidence=evidence
    )


LOST = found(GPUS[7])
COUNT = found(None, dropout.COUNT, declared=8, counted=7)
HUNG = found(None, "driver_hung")


@pytest.mark.parametrize(
    ("findings", "gpus", "action"),
    [
        pytest.param([LOST], SEVEN, Action.WATCH, id="the sick one is not offered"),
        pytest.param([LOST], GPUS, Action.EVICT, id="the sick one is offered"),
        pytest.param([LOST], None, Action.EVICT, id="what is offered is not known"),
        pytest.param([LOST, COUNT], SEVEN, Action.WATCH, id="its loss explains the count"),
        pytest.param([COUNT], SEVEN, Action.EVICT, id="a count that nothing explains"),
        pytest.param(
            [LOST, found(None, dropout.COUNT, declared=8, counted=6)],
            SEVEN,
            Action.EVICT,
            id="two missing, one known",
        ),
        pytest.param(
            [LOST, found(None, dropout.COUNT, declared=8, counted=9)],
            SEVEN,
            Action.EVICT,
            id="more than declared",
        ),
        pytest.param([LOST, HUNG], SEVEN, Action.EVICT, id="the whole node is sick too"),
        pytest.param(
            [LOST, found(GPUS[0], "ecc", Action.DRAIN)], SEVEN, Action.DRAIN, id="another one is sick"
        ),
        pytest.param([found(None)], SEVEN, Action.EVICT, id="a loss without a name"),
    ],
)
def test_only_what_is_found_on_an_offered_gpu_or_the_node_leads_to_an_act(
    findings: list[Finding], gpus: tuple[GpuUuid, ...] | None, action: Action
) -> None:
    verdict = shrink.concerning(fold(findings), gpus)
    assert verdict.action is action
    assert {f.key for f in verdict.findings} == {f.key for f in findings}
    if action is Action.WATCH:
        assert verdict.severity is Severity.DEGRADED


def test_a_verdict_without_acts_is_left_as_it_is() -> None:
    for verdict in (HEALTHY, Verdict(severity=Severity.UNKNOWN)):
        assert shrink.concerning(verdict, ()) is verdict


@pytest.mark.parametrize(
    ("good", "ratio", "worth"),
    [
        (7, 0.5, True),
        (4, 0.5, True),
        (3, 0.5, False),
        (0, 0.01, False),
        (7, 1.0, False),
        (8, 1.0, True),
        (3, 0.375, True),
    ],
)
def test_a_node_serves_with_some_gpus_only_while_they_are_enough(
    good: int, ratio: float, worth: bool
) -> None:
    assert shrink.worthwhile(GPUS[:good], declared=8, min_ratio=ratio) is worth


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [("GPU-1,GPU-2", ("GPU-1", "GPU-2")), ("0,1", ()), ("", ()), ("GPU-1, 3", ()), ("NoDevFiles", ())],
)
def test_what_a_running_raylet_offers_is_read_only_where_it_is_told_by_uuid(
    devices: str, gpus: tuple[str, ...]
) -> None:
    assert parse_offered(devices) == gpus


@pytest.mark.parametrize(
    ("counted", "healthy", "verdict", "passed"),
    [
        pytest.param(8, 8, HEALTHY, True, id="all there"),
        pytest.param(
            7, 7, shrink.concerning(fold([LOST, COUNT]), SEVEN), True, id="the missing one is known"
        ),
        pytest.param(7, 7, HEALTHY, False, id="health does not know of it"),
        pytest.param(7, 7, fold([COUNT]), False, id="a count that nothing explains"),
        pytest.param(9, 8, shrink.concerning(fold([LOST]), SEVEN), False, id="more than declared"),
    ],
)
def test_fewer_gpus_than_declared_join_only_when_each_missing_one_is_known(
    counted: int, healthy: int, verdict: Verdict, passed: bool
) -> None:
    facts = JoinFacts(
        head="h:1", local=None, remote=None, declared=8, counted=counted, healthy=healthy, verdict=verdict
    )
    (check,) = [c for c in preflight(facts).checks if c.code == "gpu_count"]
    assert check.passed is passed


# The way of a node that loses one GPU of eight and gets it back.


def turn(node: Crank, **facts: object) -> object:
    """Settle under the rules of a host with eight declared GPUs."""
    for _ in range(8):
        node.facts = replace(node.facts, **facts)  # type: ignore[arg-type]
        raw = node.facts.verdict
        raylet = node.memory.raylet
        gpus = shrink.offered(raylet, node.facts.healthy, declared=8)
        node._ids += 1
        fresh = RayNodeId(f"{node._ids:056x}")
        seen = replace(node.facts, verdict=shrink.concerning(raw, gpus), fresh_id=fresh)
        before = (node.station, node.memory)
        made = policy.step(node.station, node.memory, seen, EIGHT_RULES)
        node.station, node.memory = made.station, made.memory
        node.news.extend(made.news)
        if made.act is not None:
            return made.act
        if before == (node.station, node.memory):
            return None
    return None


def shrunk() -> Crank:
    """Return a node that was a member with eight, lost one, and serves with seven."""
    node = Crank(memory=serving())
    node.memory = replace_raylet(node.memory, GPUS)
    turn(node, raylet_alive=True)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert isinstance(turn(node, verdict=fold([LOST]), healthy=SEVEN), Drain)
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.ACCEPTED)))
    assert isinstance(turn(node, raylet_alive=False), Stop)
    node.came_to(Stopped(clean=True))
    assert isinstance(turn(node), Verify)
    node.came_to(Verified(preflight=Preflight(checks=(Check(code="x", passed=True, what="fine"),))))
    start = turn(node)
    assert isinstance(start, Start)
    assert (start.order.gpus, start.order.labels["gpuherd/degraded"]) == (SEVEN, "1")
    node.came_to(Started(raylet=replace(RAYLET, gpus=7, offered=SEVEN)))
    turn(node, raylet_alive=True)
    node.came_to(Looked(reachable=True, node=ray_node()))
    return node


def replace_raylet(memory: NodeMemory, gpus: tuple[GpuUuid, ...]) -> NodeMemory:
    return msgspec.structs.replace(memory, raylet=replace(RAYLET, offered=gpus))


def test_a_node_that_lost_one_gpu_rejoins_with_seven_and_frees_its_slot() -> None:
    node = shrunk()
    assert node.station.phase is Phase.MEMBER
    assert node.memory.holds == ()
    assert isinstance(turn(node), Release)
    assert node.station.reason == "serving with 7 of 8 GPUs"
    assert ("hold.lifted", "health: gpu_lost concerns none of the GPUs on offer") in node.news


def test_a_second_sick_gpu_drains_it_again() -> None:
    node = shrunk()
    turn(node)
    node.came_to(Released(done=True))
    act = turn(node, verdict=fold([LOST, found(GPUS[0])]), healthy=GPUS[1:7])
    assert isinstance(act, Drain)
    assert act.order.reason is DrainReason.PREEMPTION


def grown(node: Crank, seconds: float) -> object:
    node.facts = replace(node.facts, now=node.facts.now + seconds, boot_s=node.facts.boot_s + seconds)
    node.station = replace(node.station, under_way=None)
    node.memory = msgspec.structs.replace(node.memory, may_hold_slot=False)
    return turn(node, verdict=HEALTHY, healthy=GPUS)


def test_a_mended_gpu_brings_the_node_back_to_eight_once_it_is_idle() -> None:
    node = shrunk()
    assert not isinstance(grown(node, 1.0), Drain)
    act = grown(node, shrink.GROW_AFTER_S + 1.0)
    assert isinstance(act, Drain)
    assert (act.order.reason, act.order.deadline_s, act.order.pool) == (
        DrainReason.IDLE_TERMINATION,
        None,
        None,
    )
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.REJECTED, message="busy")))
    assert node.station.phase is Phase.MEMBER
    assert node.station.wants_drain == ""


def test_after_an_hour_of_work_it_takes_no_new_work_and_needs_a_slot_for_that() -> None:
    node = shrunk()
    grown(node, 1.0)
    act = grown(node, shrink.GROW_PATIENCE_S + 1.0)
    assert isinstance(act, Drain)
    assert (act.order.reason, act.order.deadline_s, act.order.pool) == (DrainReason.PREEMPTION, None, "h200")
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.NO_SLOT, message="none left")))
    assert (node.station.phase, node.station.wants_drain) == (Phase.MEMBER, "")


def test_a_raylet_of_which_nobody_knows_what_it_offers_never_grows() -> None:
    assert not shrink.may_grow(RAYLET, GPUS)
    node = Crank(memory=ordered(NodeMemory(), desired(1)))
    assert isinstance(turn(node), Verify)


@pytest.mark.parametrize(
    ("models", "label"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, "NVIDIA-H100-80GB-HBM3"),
        (["NVIDIA H100", "NVIDIA A100"], ""),
        ([], ""),
        (["°"], ""),
        (["x" * 70 + "-"], "x" * 63),
    ],
)
def test_the_shared_model_is_a_value_that_ray_takes(models: list[str], label: str) -> None:
    assert shrink.model_label(models) == label
