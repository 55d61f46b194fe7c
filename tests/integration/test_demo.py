"""`agentctl demo` on a real Ray: every step is seen, and nothing stays behind however it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gpuherd_autoscaler.record import replay
from gpuherd_sim.demo.processes import MARK
from gpuherd_sim.demo.story import STORY

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(560)]

AGENTCTL = str(Path(sys.executable).parent / "agentctl")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of this test's own for the demo's folder; afterwards it is empty and nothing runs from it."""
    place = Path(tempfile.mkdtemp(prefix="gt-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    assert list(place.glob("ghdemo-*")) == []
    assert marked_processes(place) == []
    shutil.rmtree(place)


def marked_processes(place: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            folder = process.environ().get(MARK)
        except (psutil.Error, OSError):
            continue
        if folder and Path(folder).parent == place:
            found.append(f"{process.pid} {process.name()}")
    return found


def test_the_demo_sees_every_step_and_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    report, record = tmp_path / "demo.json", tmp_path / "decisions.jsonl"
    done = subprocess.run(
        [AGENTCTL, "demo", "--json", str(report), "--record", str(record)],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    assert {step["name"] for step in told["steps"]} == {step.name for step in STORY}
    assert told["tasks"]["failed"] == 0
    assert told["tasks"]["submitted"] == told["tasks"]["finished"] >= 28
    assert len(set(told["joined"])) == 3
    assert sorted(told["joined"]) == sorted(told["left"])
    decisions, differences = replay(record)
    assert decisions > 20
    assert differences == ()
    assert temporary.is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing(number: signal.Signals, temporary: Path) -> None:
    with subprocess.Popen(
        [AGENTCTL, "demo"], stdout=subprocess.PIPE, text=True, start_new_session=True, env=os.environ.copy()
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "answers" in line:
                break
        demo.send_signal(number)
        said = demo.stdout.read()
    assert demo.returncode == 130
    assert "interrupted" in said
    assert temporary.is_dir()


def test_a_kept_demo_runs_on_until_it_is_stopped(temporary: Path) -> None:
    done = subprocess.run(
        [AGENTCTL, "demo", "--keep"], capture_output=True, text=True, check=False, timeout=540
    )
    folder = done.stdout.rpartition("agentctl demo --stop ")[2].strip().splitlines()[0]
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        status = subprocess.run(
            [AGENTCTL, "--socket", f"{folder}/scaler.sock", "status"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert status.returncode == 0, status.stderr
        assert "24 declared" in status.stdout
    finally:
        stopped = subprocess.run([AGENTCTL, "demo", "--stop", folder], check=False, timeout=60)
    assert stopped.returncode == 0
    assert temporary.is_dir()
