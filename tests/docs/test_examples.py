"""The example files are what the daemons accept."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kit.repository import ROOT

from gpuherd.shell.config_file import load
from gpuherd_agent.settings import AgentSettings
from gpuherd_autoscaler.settings import ScalerSettings

EXAMPLES: Final = ROOT / "examples"
OURS: Final[dict[str, tuple[Any, str]]] = {
    "agent.toml": (AgentSettings, "gpuherd_agent"),
    "autoscaler.toml": (ScalerSettings, "gpuherd_autoscaler"),
}


def test_every_example_is_judged_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.toml")} == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_the_settings_of_an_example_have_no_problem(name: str) -> None:
    kind, _ = OURS[name]
    assert load(kind, EXAMPLES / name, environ={}).cluster == "lab"


@pytest.mark.parametrize("name", OURS)
def test_the_daemon_accepts_its_example(name: str) -> None:
    _, module = OURS[name]
    command = [sys.executable, "-P", "-m", module, "--check", "--config", str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", OURS)
def test_the_daemon_names_every_problem_of_a_bad_file(name: str, tmp_path: Path) -> None:
    _, module = OURS[name]
    bad = tmp_path / name
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    bad.write_text('clustre = "x"\n' + text.replace('"lab"', '"No Name"'), encoding="utf-8")
    command = [sys.executable, "-P", "-m", module, "--check", "--config", str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "clustre" in said
    assert "Traceback" not in said
