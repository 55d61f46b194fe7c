"""Which GPUs are left out of a cycle, and when each is tried again."""

import pytest

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import HungGpu, ProbeProcess
from gpuherd_agent.sensors.backend import HOST
from gpuherd_agent.sensors.isolation import WAKES, Isolation, Place
from gpuherd_agent.sensors.probe_settings import ProbeSettings

CALL = "nvmlDeviceGetPowerUsage"
GPU = GpuUuid("GPU-3")


def at(index: int, *, call: str = CALL, since: float = 0.0, turned_at: float = 0.0) -> Place:
    return Place(since=since, turned_at=turned_at, index=index, call=call)


def isolation() -> Isolation:
    made = Isolation(pause_s=5.0, pause_max_s=300.0)
    made.answers(8)
    return made


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(at(3), True, id="all the time in one GPU"),
        pytest.param(at(3, since=4.9), True, id="many slow calls of one GPU"),
        pytest.param(at(3, since=4.9, turned_at=4.8), False, id="it has only just come to this GPU"),
        pytest.param(at(HOST), False, id="a call of no GPU"),
        pytest.param(at(3, call=""), False, id="in no call"),
    ],
)
def test_a_gpu_is_to_blame_that_took_most_of_the_time(place: Place, expected: bool) -> None:
    assert place.blames_gpu(5.0, 5.0) is expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(at(3), True, id="a reading"),
        pytest.param(at(HOST, call="nvmlInitWithFlags"), False, id="a start may take seconds a GPU"),
        pytest.param(at(3, call=WAKES), False, id="a GPU that wakes may take seconds"),
        pytest.param(at(3, call=WAKES, since=-5.0), True, id="and no more of them"),
        pytest.param(at(3, since=0.1), False, id="not for so long"),
        pytest.param(at(HOST, call=""), False, id="python still starts"),
    ],
)
def test_a_fresh_child_hangs_once_a_reading_takes_the_deadline(place: Place, expected: bool) -> None:
    assert place.is_hung(5.0, ProbeSettings()) is expected


def test_a_gpu_that_hangs_is_left_out_and_named_with_its_call() -> None:
    made = isolation()
    assert made.hangs(at(3), GPU, 0.0)
    assert made.skip == (3,)
    assert made.hung == (HungGpu(index=3, gpu=GPU, call=CALL, missed=1),)


def test_each_try_waits_twice_as_long_up_to_the_most() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        began = now
        while made.due(now, ()) is None:
            now += 1.0
        pauses.append(now - began)
        made.failed(3, now, call=CALL)
    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert made.hung[0].missed == 9


def test_a_try_that_ended_without_a_hang_is_no_witness() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    made.failed(3, 5.0)
    assert made.hung[0].missed == 1
    assert made.due(10.0, ()) is None
    assert made.due(15.0, ()) == 3


def test_a_gpu_that_answers_is_let_in_and_waits_longer_when_it_hangs_again_soon() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    made.passed(3, 5.0)
    assert (made.skip, made.hung) == ((), ())
    made.answers(8)
    made.hangs(at(3), GPU, 100.0)
    assert made.due(109.0, ()) is None
    assert made.due(110.0, ()) == 3


def test_what_hung_long_ago_is_forgotten() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    made.passed(3, 5.0)
    made.answers(8)
    made.hangs(at(3), GPU, 306.0)
    assert made.due(311.0, ()) == 3


def test_no_gpu_is_tried_while_a_child_that_cannot_be_ended_sits_in_it_and_at_once_when_it_has_gone() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    made.sits_on(3)
    made.sits_on(3)
    assert made.hung[0].missed == 2
    assert made.due(1_000.0, {3}) is None
    assert made.due(1.0, ()) == 3


def test_three_gpus_in_a_row_without_an_answer_between_are_the_driver() -> None:
    made = isolation()
    assert [made.hangs(at(i), None, float(i)) for i in range(3)] == [True, True, False]
    assert made.skip == (0, 1)
    made.answers(8)
    assert made.hangs(at(2), None, 10.0)


def test_another_count_lets_every_gpu_in_since_the_indexes_have_moved() -> None:
    made = isolation()
    made.hangs(at(3), GPU, 0.0)
    made.answers(8)
    assert made.skip == (3,)
    made.answers(7)
    assert made.skip == ()


def test_a_child_of_an_earlier_run_that_still_sits_in_a_gpu_is_two_witnesses() -> None:
    made = Isolation(pause_s=5.0, pause_max_s=300.0)
    made.inherits(ProbeProcess(pid=7, started_ticks=1, boot_id="b", index=3, gpu=GPU, call=CALL), 0.0)
    made.inherits(ProbeProcess(pid=8, started_ticks=1, boot_id="b"), 0.0)
    made.answers(8)
    assert made.hung == (HungGpu(index=3, gpu=GPU, call=CALL, missed=2),)
