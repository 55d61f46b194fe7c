"""Which work was there when Ray took the drain, and which came after."""

from dataclasses import replace

import pytest
from tests.kit.node import Crank, desired, hold, ordered, ray_node, serving

from gpuherd.ray import DrainAnswer, DrainOutcome, DrainReason, RayStatus
from gpuherd_agent import latecomers
from gpuherd_agent.acts import Drain, Drained, Look, Looked
from gpuherd_agent.doors import Worker
from gpuherd_agent.latecomers import SETTLE_S
from gpuherd_agent.memory import DrainRecord

TAKEN_S = 5_000.0
GROUP = "bundle_group_a1b2c3d4e5f60718"
DRAIN = latecomers.taken(
    DrainRecord(
        node_id="ab", boot_id="b", reason=DrainReason.PREEMPTION, message="fan", asked_boot_s=TAKEN_S - 1.0
    ),
    TAKEN_S,
)


def worker(pid: int, title: str = "ray::train", *, started: float = 4_000.0) -> Worker:
    return Worker(pid=pid, started_boot_s=started, title=title)


def seen(drain: DrainRecord, after_s: float, *work: Worker) -> tuple[DrainRecord, tuple[str, ...]]:
    return latecomers.check(drain, work, ray_node(), TAKEN_S + after_s)


def test_what_was_there_is_never_told_whatever_it_runs_later() -> None:
    drain, told = seen(DRAIN, 0.5, worker(1), worker(2, "ray::Trainer"))
    assert told == ()
    _, told = seen(drain, 60.0, worker(2, "ray::Trainer.fit"))
    assert told == ()


@pytest.mark.parametrize(
    ("new", "words"),
    [
        pytest.param(worker(3, "ray::other", started=TAKEN_S + 20.0), "task other", id="a new process"),
        pytest.param(worker(3, "ray::Server"), "actor Server", id="an idle process that works now"),
        pytest.param(worker(1, started=TAKEN_S + 20.0), "task train", id="a pid that was given anew"),
        pytest.param(worker(1, "ray::other"), "task other", id="another function in an old process"),
    ],
)
def test_what_came_later_is_told_once(new: Worker, words: str) -> None:
    drain, _ = seen(DRAIN, 0.5, worker(1))
    drain, told = seen(drain, SETTLE_S + 1.0, worker(1), new)
    assert (told, drain.late) == ((words,), (words,))
    again, told = seen(drain, SETTLE_S + 6.0, worker(1), new)
    assert (told, again) == ((), drain)


def test_a_placement_group_that_came_later_is_told() -> None:
    drain, _ = latecomers.check(DRAIN, (), ray_node(), TAKEN_S)
    node = replace(ray_node(), total={GROUP: 1.0})
    _, told = latecomers.check(drain, (), node, TAKEN_S + SETTLE_S + 1.0)
    assert told == ("placement group a1b2c3d4e5f6",)


def test_what_shows_right_after_the_yes_was_on_its_way() -> None:
    drain, _ = seen(DRAIN, 0.2)
    drain, told = seen(drain, SETTLE_S - 1.0, worker(1, started=TAKEN_S + 0.5))
    assert told == ()
    assert seen(drain, SETTLE_S + 1.0, worker(1, started=TAKEN_S + 0.5))[1] == ()


def test_without_a_look_in_time_the_start_of_the_process_tells() -> None:
    old, new = worker(1), worker(2, "ray::new", started=TAKEN_S + 60.0)
    assert seen(DRAIN, 100.0, old, new)[1] == ("task new",)


def test_before_ray_has_said_yes_nothing_is_told() -> None:
    asked = DrainRecord(
        node_id="ab", boot_id="b", reason=DrainReason.PREEMPTION, message="fan", asked_boot_s=0.0
    )
    assert seen(asked, 100.0, worker(1)) == (asked, ())


def test_a_node_tells_what_came_after_its_drain_and_remembers_it_over_a_restart() -> None:
    node = Crank(memory=ordered(serving(), desired(2, hold("fan", for_s=None))))
    node.settle(raylet_alive=True)
    node.came_to(Looked(reachable=True, node=ray_node()))
    assert isinstance(node.settle(), Drain)
    node.came_to(Drained(answer=DrainAnswer(outcome=DrainOutcome.ACCEPTED)))
    old, new = worker(1), worker(2, "ray::new")
    for after_s, work in ((0.0, (old,)), (10.0, (old, new)), (10.0, (old, new))):
        assert isinstance(node.after(after_s), Look)
        node.came_to(Looked(reachable=True, node=ray_node(RayStatus.DRAINING), work=work))
    told = [reason for kind, reason in node.news if kind == "drain.breached"]
    assert told == ["came after Ray took the drain: task new"]
    drain = node.restarted().memory.drain
    assert drain is not None
    assert drain.late == ("task new",)
