"""Rules for the whole suite: no GPU, no skips where they are forbidden, no process left behind."""

import os
import uuid
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

NO_SKIPS: Final = "GPUHERD_NO_SKIPS"
"""``1`` turns each skip into a failure: where everything is installed, a skip hides a test."""

RUN: Final = "GPUHERD_TEST_RUN"
"""Marks every process that a test starts, unless the test gives it an environment of its own making."""

_GRACE_S: Final = 5.0
"""What was told to end may take this long after the last test."""


def pytest_configure() -> None:
    """Mark this run. A process shows the environment it was started with, so this one is not marked."""
    os.environ[RUN] = uuid.uuid4().hex


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what needs a real GPU, unless it was asked for by its marker."""
    if "gpu" in config.option.markexpr.replace("not gpu", ""):
        return
    needing = [item for item in items if item.get_closest_marker("gpu")]
    if needing:
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """See ``NO_SKIPS``. An expected failure is not a skip."""
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Do the same for a module that is skipped as a whole."""
    report = yield
    _forbid_skip(report)
    return report


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get(NO_SKIPS) == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which {NO_SKIPS}=1 forbids: {report.longrepr}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the run when a process of it is still there, and end that process."""
    yield
    strays = stray_processes(os.environ[RUN])
    _, strays = psutil.wait_procs(strays, timeout=_GRACE_S)
    for process in strays:
        with process.oneshot():
            words = " ".join(process.cmdline())[:200] if process.is_running() else ""
        print(f"\nleft behind by a test: {process.pid} {words}")  # noqa: T201
        process.kill()
    if strays:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def stray_processes(run: str) -> list[psutil.Process]:
    """Return the living processes that were started with this run's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN) == run and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
