"""The look at what tests leave behind finds it by its group and by its marker, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.kit.ray_strays import Watch

from gpuherd_agent.actuators.ray_command import MARK

# Starts a child in its own session and one in another, prints their pids, waits for a word and ends.
LAUNCHER = """
import subprocess, sys
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
one = subprocess.Popen(["/bin/sleep", "60"], env={}, **quiet)
two = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True, **quiet)
print(one.pid, two.pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def watch() -> Iterator[Watch]:
    with Watch().running() as made:
        yield made


def launch() -> tuple[subprocess.Popen[str], list[int]]:
    started = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: f"lab/stray-{os.getpid()}"},
        start_new_session=True,
    )
    assert started.stdout is not None
    return started, [int(pid) for pid in started.stdout.readline().split()]


def test_what_lost_its_parent_is_found_by_its_group_and_by_its_marker(watch: Watch) -> None:
    before = watch.before()
    launcher, pids = launch()
    watch.alive()
    launcher.communicate("end\n")
    try:
        left = watch.left(before, grace_s=0.0)
        assert sorted(int(line.split()[0]) for line in left) == sorted(pids)
    finally:
        for pid in pids:
            os.kill(pid, 9)
    assert watch.left(before, grace_s=5.0) == ()


def test_what_ran_before_and_what_it_starts_later_is_nobodys_stray(watch: Watch) -> None:
    launcher, pids = launch()
    before = watch.before()
    try:
        assert set(pids) <= set(before.processes)
        assert watch.left(before, grace_s=0.0) == ()
    finally:
        launcher.communicate("end\n")
        for pid in pids:
            os.kill(pid, 9)


def test_what_is_started_again_under_its_marker_is_nobodys_stray_and_another_is(watch: Watch) -> None:
    def run(seconds: str) -> subprocess.Popen[bytes]:
        env = {MARK: f"lab/again-{os.getpid()}"}
        return subprocess.Popen(["/bin/sleep", seconds], env=env, start_new_session=True)

    first = run("60")
    before = watch.before()
    first.kill()
    first.wait()
    again, another = run("60"), run("61")
    try:
        assert [int(line.split()[0]) for line in watch.left(before, grace_s=0.0)] == [another.pid]
    finally:
        for one in (again, another):
            one.kill()
            one.wait()
