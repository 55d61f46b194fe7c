"""Runs of hundreds of nodes log by the megabyte: only errors are shown."""

import pytest

from gpuherd.shell import logs


@pytest.fixture(autouse=True, scope="session")
def _only_errors() -> None:
    logs.configure(level="error")
