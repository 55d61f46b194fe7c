"""systemd's own judgement of the units: no unknown key, and little to gain for an intruder."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest
from tests.kit.repository import ROOT

UNITS: Final = sorted((ROOT / "systemd").glob("*.service"))
SCORE_LIMITS: Final = {"gpuherd-agent.service": 2.2, "gpuherd-autoscaler.service": 1.5}
"""0 = closed, 10 = open. Most services of a distribution score above 9."""


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed (Debian package: systemd)")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


def read(path: Path) -> list[tuple[str, str]]:
    """Return the settings in their order; systemd's keys may come more than once."""
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = [line.partition("=") for line in lines if re.match(r"[A-Z]\w+=", line)]
    return [(key, value) for key, _, value in parts]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_knows_every_key_of_the_unit(unit: Path, tmp_path: Path) -> None:
    # verify demands that programs exist; where they lie is the business of the installation.
    copy = tmp_path / unit.name
    text = unit.read_text(encoding="utf-8")
    copy.write_text(re.sub(r"/opt/\w+/bin/[\w-]+", "/bin/true", text), encoding="utf-8")
    done = analyze("verify", "--man=no", "--recursive-errors=no", str(copy))
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.parametrize("unit", SCORE_LIMITS)
def test_an_intruder_gains_little(unit: str) -> None:
    done = analyze("security", "--offline=yes", "--no-pager", str(ROOT / "systemd" / unit))
    score = re.search(r"exposure level for .*: ([\d.]+)", done.stdout)
    assert score is not None, done.stdout + done.stderr
    assert float(score[1]) <= SCORE_LIMITS[unit]


def test_ray_is_bound_to_no_unit_of_ours() -> None:
    """Or a restart of the agent would end the jobs."""
    binding = {"BindsTo", "Requires", "PartOf", "Requisite", "PropagatesStopTo"}
    for unit in UNITS:
        assert not binding & {key for key, _ in read(unit)}, unit.name


def test_the_head_finds_a_silent_host_in_seconds() -> None:
    settings = {value for key, value in read(ROOT / "systemd/gpuherd-head.service") if key == "Environment"}
    assert {
        "RAY_health_check_period_ms=1000",
        "RAY_health_check_timeout_ms=2000",
        "RAY_health_check_failure_threshold=5",
    } <= settings


@pytest.mark.parametrize("unit", ["gpuherd-head.service", "gpuherd-ray.service"])
def test_ray_never_guesses_how_it_is_guarded(unit: str) -> None:
    settings = {value for key, value in read(ROOT / "systemd" / unit) if key == "Environment"}
    assert {"RAY_AUTH_MODE=token", "RAY_USAGE_STATS_ENABLED=0"} <= settings


def test_every_user_that_a_unit_runs_as_is_made() -> None:
    made = set(re.findall(r"^u (\S+)", (ROOT / "systemd/gpuherd.sysusers").read_text(), re.MULTILINE))
    used = {value for unit in UNITS for key, value in read(unit) if key in {"User", "Group"}}
    assert used == made


def test_every_command_that_a_unit_starts_is_one_of_ours_or_ray() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commands = {f"/opt/gpuherd/bin/{name}" for name in project["scripts"]} | {"/opt/ray/bin/ray"}
    started = {value.split()[0] for unit in UNITS for key, value in read(unit) if key == "ExecStart"}
    assert started <= commands
