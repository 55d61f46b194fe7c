"""A served unix socket on a short path, and agentctl called as from a shell."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.rest_server import RestServer, serve

from gpuherd_ctl.__main__ import main

Call = Callable[..., int]


@pytest.fixture
def rest() -> Iterator[RestServer]:
    folder = Path(tempfile.mkdtemp(prefix="gh-"))  # pytest's own folders are too long for a unix socket
    try:
        with serve(folder / "s") as server:
            yield server
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def agentctl(rest: RestServer, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("GPUHERD_SOCKET", str(rest.path))
    monkeypatch.setenv("SUDO_USER", "ada")
    return lambda *words: main(words)
