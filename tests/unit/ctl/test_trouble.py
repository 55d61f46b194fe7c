"""What goes wrong: every kind has its exit code and says what to do next."""

import socket
import tempfile
from pathlib import Path

import pytest
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.rest import Problem
from gpuherd_ctl.__main__ import main
from gpuherd_ctl.exit_codes import ExitCode, merge


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        pytest.param(400, "bad_request", 2, id="usage"),
        pytest.param(403, "refused", 4, id="safety rule"),
        pytest.param(409, "refused", 4, id="the word counts before the status"),
        pytest.param(412, "not_drained", 5, id="precondition"),
        pytest.param(503, "starting", 7, id="not ready"),
        pytest.param(404, "not_found", 8, id="unknown node"),
        pytest.param(409, "other_operation", 9, id="conflict"),
        pytest.param(500, "internal", 1, id="anything else failed"),
    ],
)
def test_a_problem_becomes_its_exit_code_and_shows_its_hint(
    rest: RestServer,
    agentctl: Call,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: str,
    expected: int,
) -> None:
    rest.on("GET", "/fleet", Problem(title="No", status=status, detail="why", code=code, hint="do this"))
    assert agentctl("status") == expected
    assert capsys.readouterr().err.splitlines() == ["agentctl: why", "  do this"]


def test_no_socket_says_which_path_and_how_to_name_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket", "/nonexistent/a.sock", "status"]) == 7
    said = capsys.readouterr().err
    assert "/nonexistent/a.sock: no such socket" in said
    assert "--socket PATH or GPUHERD_SOCKET" in said


def test_a_socket_without_a_listener_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="gh-") as folder, socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(Path(folder) / "s"))
        assert main(["--socket", str(Path(folder) / "s"), "nodes"]) == 7
    assert "nothing listens there" in capsys.readouterr().err


def test_an_answer_that_is_no_body_of_ours_fails_with_the_versions_to_compare(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/fleet", b"<html>")
    assert agentctl("status") == 1
    assert "agentctl version" in capsys.readouterr().err


def test_a_bad_name_is_usage_and_asks_nobody(rest: RestServer, agentctl: Call) -> None:
    assert agentctl("nodes", "GPU_1") == 2
    assert rest.asked == []


def test_version_needs_no_autoscaler(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket", "/nonexistent/a.sock", "version"]) == 0
    assert capsys.readouterr().out.startswith("agentctl    0.")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param([], ExitCode.DONE, id="none"),
        pytest.param([ExitCode.DONE, ExitCode.DONE], ExitCode.DONE, id="all done"),
        pytest.param([ExitCode.REFUSED, ExitCode.REFUSED], ExitCode.REFUSED, id="all refused"),
        pytest.param([ExitCode.DONE, ExitCode.REFUSED], ExitCode.PARTIAL, id="some done"),
        pytest.param([ExitCode.NOT_FOUND, ExitCode.REFUSED], ExitCode.FAILED, id="none done, mixed"),
    ],
)
def test_several_nodes_share_one_exit_code(codes: list[ExitCode], expected: ExitCode) -> None:
    assert merge(codes) is expected
