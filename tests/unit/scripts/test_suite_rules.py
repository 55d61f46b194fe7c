"""tests/conftest.py and scripts/: forbidden skips, strays, and a run that says when it is incomplete."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from tests.kit.repository import ROOT

SKIPPING = """
    import pytest
    def test_one(): pytest.skip("no such program")
    @pytest.mark.xfail
    def test_two(): assert False
"""
LITTERING = """
    import subprocess
    def test_one(): print("left", subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
"""


def suite(folder: Path, body: str) -> None:
    """Make a small checkout that is run by the rules of this one."""
    for name in ("pyproject.toml", "scripts/stages.py", "tests/conftest.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests" / "unit").mkdir(exist_ok=True)
    (folder / "tests" / "unit" / "test_small.py").write_text(textwrap.dedent(body), encoding="utf-8")


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"GPUHERD_NO_SKIPS", "ALLOW_SKIPS"}}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_skip_passes_where_skips_are_allowed(tmp_path: Path) -> None:
    suite(tmp_path, SKIPPING)
    done = run(tmp_path, "-m", "pytest", "tests")
    assert done.returncode == 0, done.stdout
    assert "1 skipped, 1 xfailed" in done.stdout


def test_a_skip_fails_where_skips_are_forbidden_and_an_expected_failure_does_not(tmp_path: Path) -> None:
    suite(tmp_path, SKIPPING)
    done = run(tmp_path, "-m", "pytest", "tests", GPUHERD_NO_SKIPS="1")
    assert done.returncode == 1
    assert "1 failed, 1 xfailed" in done.stdout
    assert "no such program" in done.stdout


def test_a_module_that_is_skipped_as_a_whole_fails_too(tmp_path: Path) -> None:
    suite(tmp_path, 'import pytest\npytest.skip("whole", allow_module_level=True)\n')
    assert run(tmp_path, "-m", "pytest", "tests", GPUHERD_NO_SKIPS="1").returncode != 0


def test_a_process_left_behind_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    suite(tmp_path, LITTERING)
    done = run(tmp_path, "-m", "pytest", "tests", "-s")
    assert done.returncode == 1, done.stdout
    assert "left behind by a test" in done.stdout
    pid = int(done.stdout.split("left ", 1)[1].split()[0])
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_test_for_a_real_gpu_is_deselected_not_skipped(tmp_path: Path) -> None:
    suite(tmp_path, "import pytest\n@pytest.mark.gpu\ndef test_one(): assert 0\ndef test_two(): pass\n")
    done = run(tmp_path, "-m", "pytest", "tests")
    assert "1 passed, 1 deselected" in done.stdout


@pytest.mark.parametrize(("allowed", "expected"), [("", 3), ("1", 0)])
def test_stages_call_a_run_with_skips_incomplete(tmp_path: Path, allowed: str, expected: int) -> None:
    suite(tmp_path, SKIPPING)
    done = run(tmp_path, "scripts/stages.py", ALLOW_SKIPS=allowed)
    assert "INCOMPLETE: 1 tests" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert done.returncode == expected


def test_stages_fail_when_a_test_fails_and_go_on_to_the_table(tmp_path: Path) -> None:
    suite(tmp_path, "def test_one(): assert 0\n")
    done = run(tmp_path, "scripts/stages.py")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "in all" in done.stdout.splitlines()[-1]


def test_stages_refuse_a_folder_that_no_stage_runs(tmp_path: Path) -> None:
    suite(tmp_path, "def test_one(): pass\n")
    (tmp_path / "tests" / "forgotten").mkdir()
    (tmp_path / "tests" / "forgotten" / "test_it.py").write_text("def test_one(): pass\n", encoding="utf-8")
    done = run(tmp_path, "scripts/stages.py")
    assert done.returncode == 1
    assert "forgotten" in done.stderr
