"""Scenarios of simulated GPUs: their grammar, their time line, their round trip."""

import math

import pytest

from gpuherd.errors import ConfigInvalid
from gpuherd_sim.gpus.scenario import Scenario, Value, dump, gpu_uuid, parse


def test_the_last_setting_in_force_wins() -> None:
    scenario = Scenario().having({"gpu.3.core_celsius": 60}).having({"gpu.3.core_celsius": 90}, at_s=20.0)
    assert scenario.in_force(19.9)["gpu.3.core_celsius"] == 60
    assert scenario.in_force(20.0)["gpu.3.core_celsius"] == 90


def test_a_scenario_survives_being_written_and_read() -> None:
    scenario = (
        Scenario(host='odd "host"', started_at=12.5)
        .having({"gpus": 4, "gpu.1.pids": (7, 9), "all.model": "A \\ B"})
        .with_lost(2, at_s=5.0)
        .with_hang(at_s=6.0)
        .with_hang(0.0, at_s=6.0)
    )
    assert parse(dump(scenario)) == scenario


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpu.3.temperature", 60),
        ("gpu.300.core_celsius", 60),
        ("gpus", 65),
        ("gpus", 1.5),
        ("all.core_celsius", "hot"),
        ("all.core_celsius", math.nan),
        ("driver", "two\nlines"),
        ("gpu.0.pids", 7),
        ("call.system.error", 9),
    ],
)
def test_a_setting_outside_the_grammar_is_refused_with_its_key(key: str, value: Value) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        Scenario().having({key: value})
    assert list(caught.value.problems) == [key]


def test_every_problem_of_a_file_is_told_at_once() -> None:
    text = "host = 7\ngpus = 99\nfans = 3\n[[at]]\ngpu.0.error = 15\n"
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    assert set(caught.value.problems) == {"host", "gpus", "fans", "at[0].s"}


def test_a_host_keeps_its_uuids_and_shares_none() -> None:
    mine = [gpu_uuid("a", i) for i in range(8)]
    assert mine == [gpu_uuid("a", i) for i in range(8)]
    assert not set(mine) & {gpu_uuid("b", i) for i in range(8)}
