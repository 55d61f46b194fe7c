"""Recorded decisions replay to the same bytes, and a changed one is found."""

from pathlib import Path

from tests.kit.fleets import booting, gpus, limits, picture, pool, serving, sick, standby

from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.record import Inputs, append, replay


def recorded(path: Path, looks: int) -> None:
    bounds, memory = limits(pool(4, idle_timeout_s=30.0)), Memory()
    nodes = [standby("n-1"), serving("n-2"), sick("n-3"), booting("n-4")]
    for i in range(looks):
        now = 5.0 * i
        inputs = Inputs(
            snapshot=picture(nodes, [gpus(0.5, i)] if i % 3 else [], at=now),
            memory=memory,
            limits=bounds,
            now=now,
        )
        plan, memory = decide(inputs.snapshot, memory, bounds, now)
        append(path, inputs, plan)


def test_recorded_snapshots_replay_to_byte_equal_plans(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    recorded(file, 20)
    assert replay(file) == (20, ())


def test_a_decision_that_turns_out_otherwise_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    recorded(file, 3)
    text = file.read_text().splitlines()
    text[1] = text[1].replace('"demand_known":true', '"demand_known":false')
    file.write_text("\n".join(text) + "\n")
    count, differences = replay(file)
    assert (count, [d.line for d in differences]) == (3, [2])


def test_an_empty_record_holds_no_decision(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.touch()
    assert replay(file) == (0, ())
