"""Checks and hooks of a site as real programs: deadlines, output, rights, processes that stay behind."""

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpuherd.health import Severity, Verdict
from gpuherd.shell.clock import SystemClock
from gpuherd_agent import programs
from gpuherd_agent.actuators.hooks import SiteHooks
from gpuherd_agent.sensors.site_checks import CHECKS_MAX, SiteChecks
from gpuherd_agent.site_result import Status
from gpuherd_agent.site_settings import CheckSettings, HookSettings
from gpuherd_agent.verdict_bell import VerdictBell

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GPUHERD_NODE": "gpu-1"}


def script(path: Path, body: str, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def checks(folder: Path, *, deadline_s: float = 10.0) -> SiteChecks:
    return SiteChecks(CheckSettings(folder=str(folder), deadline_s=deadline_s), SystemClock(), ENVIRONMENT)


def left_over(mark: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter() if mark in " ".join(_words(p))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  the world has no event to wait for
        await asyncio.sleep(0.02)


async def test_every_check_of_the_folder_has_its_word(tmp_path: Path) -> None:
    script(tmp_path / "disk", "echo full; exit 2")
    script(tmp_path / "mount", "echo $GPUHERD_NODE is fine")
    script(tmp_path / "no program", "exit 2")
    (tmp_path / "README.txt").write_text("about these checks")
    site = checks(tmp_path)
    await site.round()
    told = {r.name: (r.status, r.reason) for r in site.readings}
    assert told["disk"] == (Status.CRITICAL, "full")
    assert told["mount"] == (Status.OK, "gpu-1 is fine")
    assert told["README.txt"][0] is Status.UNKNOWN
    assert "no program" not in told
    (tmp_path / "disk").unlink()
    await site.round()
    assert "disk" not in {r.name for r in site.readings}


async def test_a_check_that_hangs_costs_its_deadline_and_ends_with_all_it_started(tmp_path: Path) -> None:
    script(tmp_path / "hang", "trap '' TERM; sleep 987 & sleep 987; sleep 987")
    script(tmp_path / "zz", "exit 0")
    site = checks(tmp_path, deadline_s=0.3)
    await site.round()
    hang, last = site.readings
    assert (hang.status, last.status) == (Status.UNKNOWN, Status.OK)
    assert hang.reason.startswith("did not end in time")
    assert left_over("sleep 987") == []


async def test_a_talkative_check_is_cut_and_a_child_at_its_output_is_not_waited_for(tmp_path: Path) -> None:
    script(tmp_path / "talk", "yes | head -c 3000000; exit 1")
    loud = await programs.run(tmp_path / "talk", deadline_s=20, environment=ENVIRONMENT)
    assert (loud.code, len(loud.output)) == (1, programs.OUTPUT_MAX - 1)
    script(tmp_path / "leave", "sleep 60 & echo done")
    quick = await programs.run(tmp_path / "leave", deadline_s=20, environment=ENVIRONMENT)
    assert (quick.code, quick.output) == (0, "done")
    assert not quick.is_late
    for stray in left_over("sleep 60"):
        stray.kill()


@pytest.mark.parametrize("mode", [stat.S_IWOTH, stat.S_IWGRP])
async def test_a_program_that_others_may_write_is_not_run(tmp_path: Path, mode: int) -> None:
    mark = tmp_path / "ran"
    script(tmp_path / "open", f"touch {mark}", 0o755 | mode)
    site = checks(tmp_path)
    await site.round()
    assert "chmod go-w" in site.readings[0].reason
    assert not mark.exists()


async def test_there_are_never_more_checks_than_the_bound(tmp_path: Path) -> None:
    for number in range(CHECKS_MAX + 5):
        script(tmp_path / f"c{number:02}", "exit 0")
    site = checks(tmp_path)
    await site.round()
    assert len(site.readings) == CHECKS_MAX


async def test_a_folder_that_is_not_there_yields_nothing(tmp_path: Path) -> None:
    site = checks(tmp_path / "none")
    await site.round()
    assert site.readings == ()


async def test_a_hook_is_told_of_its_step_and_its_word_comes_back(tmp_path: Path) -> None:
    script(tmp_path / "pre-join", 'echo "$GPUHERD_HOOK $GPUHERD_REASON"; echo "$GPUHERD_FACTS"; exit 3')
    hooks = SiteHooks(HookSettings(folder=str(tmp_path)), ENVIRONMENT)
    ended = await hooks.run("pre-join", {"reason": "now"})
    assert ended is not None
    first, facts = ended.output.splitlines()
    assert (ended.code, first, json.loads(facts)) == (3, "pre-join now", {"reason": "now"})
    assert await hooks.run("post-leave", {}) is None


async def test_a_hook_that_hangs_or_that_others_may_write_is_no_yes(tmp_path: Path) -> None:
    script(tmp_path / "pre-join", "sleep 986")
    hooks = SiteHooks(HookSettings(folder=str(tmp_path), pre_join_s=0.2), ENVIRONMENT)
    ended = await hooks.run("pre-join", {})
    assert ended is not None
    assert (ended.code, ended.is_late) == (None, True)
    assert left_over("sleep 986") == []
    script(tmp_path / "pre-join", "exit 0", 0o777)
    refused = await hooks.run("pre-join", {})
    assert refused is not None
    assert refused.code is None


async def test_a_cancelled_program_ends(tmp_path: Path) -> None:
    path = script(tmp_path / "long", "sleep 985")
    running = asyncio.ensure_future(programs.run(path, deadline_s=60, environment=ENVIRONMENT))
    await until(lambda: bool(left_over("sleep 985")))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not left_over("sleep 985"))


async def test_each_change_of_the_verdict_rings_once_and_the_newest_waits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script(tmp_path / "on-verdict", f'echo "$GPUHERD_SEVERITY" >> {log}; sleep 0.2')
    bell = VerdictBell(SiteHooks(HookSettings(folder=str(tmp_path)), {**os.environ}))
    running = asyncio.ensure_future(bell.run())
    for severity in (Severity.OK, Severity.OK, Severity.UNKNOWN):
        bell.ring(Verdict(severity=severity))
    await until(log.exists)
    for severity in (Severity.WARN, Severity.DEGRADED, Severity.CRITICAL):
        bell.ring(Verdict(severity=severity))
    await until(lambda: len(log.read_text().splitlines()) >= 2)
    await asyncio.sleep(0.3)
    running.cancel()
    assert log.read_text().split() == ["ok", "critical"]
