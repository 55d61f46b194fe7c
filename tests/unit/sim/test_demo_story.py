"""The demo's story is judged by Ray's state, step by step, and only a full one passes."""

from dataclasses import replace

import pytest
from tests.kit.rest_bodies import node as rest_node

from gpuherd.health import Action, Finding, Severity
from gpuherd.names import NodeName, RayNodeId
from gpuherd.ray import ClusterSight, RayNode, RayStatus, Shape
from gpuherd.rest import Node
from gpuherd_sim.demo.narrator import Narrator
from gpuherd_sim.demo.observation import Observation, TaskStart, Work
from gpuherd_sim.demo.story import STORY, Cast, Cue, Scene, Story

NAMES = tuple(NodeName(f"gpu-{i}") for i in (1, 2, 3))
IDS = {name: RayNodeId(f"{i:056x}") for i, name in enumerate(NAMES, start=1)}
HEAD = RayNode(id=RayNodeId("f" * 56), name=None, status=RayStatus.IDLE)
QUEUE = (Shape(resources=(("GPU", 1.0),), count=14),)


def ray_node(name: NodeName, *, used: int = 0, status: RayStatus = RayStatus.RUNNING) -> RayNode:
    return RayNode(
        id=IDS[name],
        name=name,
        status=status,
        total={} if status is RayStatus.DEAD else {"GPU": 8.0},
        available={"GPU": 8.0 - used},
    )


def look(
    at_s: float, *nodes: RayNode, pending: tuple[Shape, ...] = (), work: Work | None = None
) -> Observation:
    herd: dict[NodeName, Node] = {name: rest_node(name, agent_online=True) for name in NAMES}
    return Observation(
        at_s=at_s,
        sight=ClusterSight(session="s1", nodes=(HEAD, *nodes), pending=pending),
        nodes=herd,
        work=work or Work(),
    )


def fresh() -> Story:
    return Story(scene=Scene(cast=Cast(nodes=NAMES, gpus_each=8, stay=0)))


def started(*names: NodeName, at_s: float) -> tuple[TaskStart, ...]:
    return tuple(TaskStart(task=i, node=IDS[name], at_s=at_s) for i, name in enumerate(names))


ONE, TWO, THREE = NAMES
LOST = Finding(rule="dropout", severity=Severity.CRITICAL, action=Action.DRAIN, reason="GPU 5 is lost")
FIRST = started(ONE, ONE, TWO, at_s=6.0)
LATER = started(TWO, THREE, at_s=14.0)
DONE = Work(submitted=4, finished=4, starts=FIRST + LATER, has_ended=True)


def with_finding(seen: Observation, name: NodeName) -> Observation:
    return replace(seen, nodes={**seen.nodes, name: rest_node(name, findings=(LOST,))})


def whole_run() -> list[Observation]:
    dead_one = ray_node(ONE, status=RayStatus.DEAD)
    return [
        Observation(at_s=0.0),
        look(1.0),
        look(3.0, pending=QUEUE),
        look(4.0, ray_node(ONE)),
        look(5.0, ray_node(ONE), ray_node(TWO)),
        look(6.0, ray_node(ONE, used=2), ray_node(TWO, used=1), work=Work(submitted=2, starts=FIRST)),
        with_finding(
            look(
                8.0,
                ray_node(ONE, used=2, status=RayStatus.DRAINING),
                ray_node(TWO),
                work=Work(submitted=2, starts=FIRST),
            ),
            ONE,
        ),
        look(12.0, dead_one, ray_node(TWO, used=6)),
        look(13.0, dead_one, ray_node(TWO, used=6), ray_node(THREE)),
        look(14.0, dead_one, ray_node(TWO), ray_node(THREE), work=replace(DONE, has_ended=False)),
        look(20.0, dead_one, ray_node(TWO), ray_node(THREE), work=DONE),
        look(30.0, *(ray_node(name, status=RayStatus.DEAD) for name in NAMES), work=DONE),
    ]


def play(run: list[Observation]) -> Story:
    story = fresh()
    for seen in run:
        for step in story.see(seen):
            if step.cue is Cue.BREAK_GPU:
                story.scene.broken_at_s = seen.at_s
    return story


def test_a_whole_run_shows_every_step_in_order() -> None:
    story = play(whole_run())
    assert story.open_steps == ()
    assert {s.step for s in story.told} == {step.name for step in STORY}
    assert [s.at_s for s in story.told] == sorted(s.at_s for s in story.told)


def test_the_cues_come_with_the_steps_that_they_follow() -> None:
    cues = [(s.step, s.cue) for s in play(whole_run()).told if s.cue]
    assert cues == [
        ("agents stand by", Cue.SUBMIT),
        ("tasks run on both", Cue.BREAK_GPU),
        ("replacement works", Cue.ENOUGH),
    ]


def test_the_fullest_node_is_the_one_whose_gpu_breaks() -> None:
    assert play(whole_run()).scene.sick_name == ONE


@pytest.mark.parametrize(
    ("looks", "waits_for"),
    [
        (1, {"head is up"}),
        (2, {"work is queued"}),
        (3, {"first node joins"}),
        (4, {"second node joins"}),
        (5, {"tasks run on both"}),
        (6, {"lost GPU is found", "sick node gets no new work"}),
        (7, {"another node replaces it", "sick node leaves"}),
        (8, {"another node replaces it"}),
        (9, {"replacement works"}),
        (10, {"queue is empty"}),
        (11, {"idle nodes drain down to min"}),
    ],
)
def test_each_step_is_told_by_its_own_look_and_not_before(looks: int, waits_for: set[str]) -> None:
    assert set(play(whole_run()[:looks]).waits_for) == waits_for


def test_a_task_on_the_sick_node_after_the_drain_fails_the_run() -> None:
    run = whole_run()
    wrong = replace(DONE, starts=DONE.starts + started(ONE, at_s=9.0))
    run[-2:] = [replace(seen, work=wrong) for seen in run[-2:]]
    assert [step.name for step in play(run).open_steps] == ["sick node got nothing since"]


def test_a_task_that_had_its_gpu_before_the_drain_may_start_after_it() -> None:
    run = whole_run()
    draining = ray_node(ONE, used=3, status=RayStatus.DRAINING)
    run[6] = replace(run[6], sight=ClusterSight(session="s1", nodes=(HEAD, draining, ray_node(TWO))))
    late = replace(DONE, starts=DONE.starts + started(ONE, at_s=9.0))
    run[-2:] = [replace(seen, work=late) for seen in run[-2:]]
    assert play(run).open_steps == ()


def test_a_failed_task_fails_the_run() -> None:
    run = whole_run()
    run[-2:] = [replace(seen, work=replace(DONE, failed=1)) for seen in run[-2:]]
    assert play(run).waits_for == ("queue is empty",)


def test_while_ray_does_not_answer_nobody_is_taken_for_gone() -> None:
    story = play([*whole_run()[:6], Observation(at_s=7.0)])
    assert story.scene.left == {}


def test_waiting_names_the_steps_that_hang() -> None:
    assert play(whole_run()[:6]).waits_for == ("lost GPU is found", "sick node gets no new work")


def test_the_report_has_exactly_the_promised_keys() -> None:
    report = Narrator(started_at_s=0.5).report(play(whole_run()), DONE)
    assert list(report) == ["steps", "tasks", "joined", "left", "fault_to_no_new_work_s"]
    assert report["tasks"] == {"submitted": 4, "finished": 4, "failed": 0}
    assert report["joined"] == list(NAMES)
    assert report["left"] == list(NAMES)
    assert report["fault_to_no_new_work_s"] == 2.0
    steps = report["steps"]
    assert isinstance(steps, list)
    assert list(steps[0]) == ["name", "at_s", "reason"]
    assert steps[0]["at_s"] == 0.5
