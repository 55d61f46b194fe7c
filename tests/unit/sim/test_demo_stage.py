"""The demo's folder: secrets, settings as TOML, work told in lines, and nothing left behind."""

import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuherd.shell.config_file import load
from gpuherd_agent.settings import AgentSettings
from gpuherd_autoscaler.settings import ScalerSettings
from gpuherd_sim.demo import stage as staging
from gpuherd_sim.demo.observation import TaskStart, Work
from gpuherd_sim.demo.processes import Crew, end_marked, marked
from gpuherd_sim.demo.stage import NODES, Stage
from gpuherd_sim.demo.work import append, parse_work, read_work
from gpuherd_sim.gpus.scenario_file import read_scenario


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = staging.set_up()
    yield made
    staging.clear(made.folder)
    assert not made.folder.exists()


def test_the_token_is_for_its_owner_only(stage: Stage) -> None:
    assert stat.S_IMODE(stage.token.stat().st_mode) == 0o600
    assert len(stage.token.read_text()) == 64


def test_every_process_has_a_port_of_its_own(stage: Stage) -> None:
    ports = [
        stage.head_port,
        stage.client_port,
        stage.broker_port,
        stage.api_port,
        *stage.agent_ports.values(),
    ]
    assert len(set(ports)) == len(ports)


def test_paths_stay_short_enough_for_rays_sockets(stage: Stage) -> None:
    settings = staging.agent_settings(stage, NODES[0])
    assert isinstance(settings["ray"], dict)
    assert len(settings["ray"]["temp_dir"]) <= 43


def test_settings_are_written_as_they_are_meant(stage: Stage) -> None:
    read = tomllib.loads(stage.config("autoscaler").read_text())
    assert read == staging.autoscaler_settings(stage)
    assert tomllib.loads(stage.config("gpu-2").read_text()) == staging.agent_settings(stage, NODES[1])


def test_the_daemons_take_these_settings(stage: Stage) -> None:
    assert load(ScalerSettings, stage.config("autoscaler"), environ={}).broker.embedded
    for node in NODES:
        assert load(AgentSettings, stage.config(node), environ={}).gpu.declared == 8


def test_what_the_shell_says_to_ray_does_not_reach_the_demo(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("GPUHERD__BROKER__URL", "mqtt://10.0.0.1")
    env = stage.agent_environment(NODES[0])
    assert "RAY_ADDRESS" not in env
    assert not any(key.startswith("GPUHERD__") for key in env)
    assert env["RAY_AUTH_MODE"] == "token"
    assert env["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_broken_gpu_is_lost_and_its_neighbours_are_not(stage: Stage) -> None:
    stage.break_gpu(NODES[0], 5)
    changed = read_scenario(stage.scenario(NODES[0])).in_force(1e9)
    assert changed["gpu.5.error"] == 15
    assert "gpu.4.error" not in changed


def test_only_a_folder_of_the_demo_is_known_as_one(stage: Stage, tmp_path: Path) -> None:
    assert staging.is_stage(stage.folder)
    assert not staging.is_stage(tmp_path)


def test_work_is_read_back_as_it_was_told(tmp_path: Path) -> None:
    ledger = tmp_path / "work.jsonl"
    assert read_work(ledger) == Work()
    append(ledger, kind="submitted", count=2)
    append(ledger, kind="started", task=0, node="ab", at_s=1.5)
    append(ledger, kind="finished", task=0)
    append(ledger, kind="failed", why="lost")
    append(ledger, kind="ended")
    assert read_work(ledger) == Work(
        submitted=2,
        finished=1,
        failed=1,
        starts=(TaskStart(task=0, node="ab", at_s=1.5),),  # type: ignore[arg-type]  # any text is an id here
        has_ended=True,
    )


def test_a_line_that_is_being_written_counts_later() -> None:
    assert parse_work('{"kind": "finished", "task": 0}\n{"kind": "fini') == Work(finished=1)


_FAMILY = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={"NO": "mark"})
print("up", flush=True)
time.sleep(600)
"""


def test_the_crew_ends_children_in_other_sessions_and_those_without_the_mark(tmp_path: Path) -> None:
    crew = Crew(folder=tmp_path)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        crew.start("family", [sys.executable, "-c", _FAMILY], {})
        while "up" not in crew.log_tail("family"):
            assert crew.fallen() is None
        assert len(marked(tmp_path, set())) == 3
        assert crew.dismiss()
        assert marked(tmp_path, set()) == []
        assert stranger.poll() is None
    finally:
        end_marked(tmp_path)
        stranger.kill()
        stranger.wait()


def test_a_process_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    crew = Crew(folder=tmp_path)
    crew.start("daemon", [sys.executable, "-c", "print('no port'); raise SystemExit(3)"], {})
    while (fallen := crew.fallen()) is None:
        pass
    assert (fallen.name, fallen.code, fallen.log_tail) == ("daemon", 3, "no port")
