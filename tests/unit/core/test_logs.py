"""Log lines as the programs write them."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from gpuherd.settings import Secret
from gpuherd.shell import logs


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_one_json_object_with_event_level_time_and_values(out: io.StringIO) -> None:
    logs.configure(stream=out)
    structlog.get_logger().warning("broker.lost", outage_s=1.5)
    line = json.loads(out.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "broker.lost", "level": "warning", "outage_s": 1.5}


def test_a_secret_never_shows(out: io.StringIO) -> None:
    logs.configure(stream=out)
    structlog.get_logger().info("broker.connected", password=Secret("hunter2"))
    assert "hunter2" not in out.getvalue()
    assert "***" in out.getvalue()


def test_lines_below_the_level_are_left_out(out: io.StringIO) -> None:
    logs.configure(level="warning", stream=out)
    structlog.get_logger().info("ray.joined")
    assert out.getvalue() == ""


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="loud"):
        logs.configure(level="loud")


def test_what_a_library_logs_comes_out_in_the_same_form(out: io.StringIO) -> None:
    logs.configure(stream=out)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("asyncio").exception("task failed: %s", "x")
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"]) == ("library.logged", "error")
    assert (line["library"], line["message"]) == ("asyncio", "task failed: x")
    assert "RuntimeError: boom" in line["exception"]


def test_a_terminal_gets_readable_lines() -> None:
    out = Terminal()
    try:
        logs.configure(stream=out)
        structlog.get_logger().info("ray.joined", gpus=8)
    finally:
        structlog.reset_defaults()
    assert "ray.joined" in out.getvalue()
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(out.getvalue())


def test_a_program_that_refuses_rich_logs_without_it() -> None:
    program = (
        "from gpuherd.shell.lean_imports import refuse_rich; refuse_rich()\n"
        "import sys; from gpuherd.shell import logs; logs.configure()\n"
        "import structlog; structlog.get_logger().info('ray.joined')\n"
        "assert sys.modules['rich'] is None\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(done.stderr)["event"] == "ray.joined"
