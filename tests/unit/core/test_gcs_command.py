"""``gpuherd-gcs``: its grammar and exit codes, without a head."""

import json
from pathlib import Path

import pytest

from gpuherd.ray import DrainOutcome
from gpuherd.shell.gcs_command import EXIT_CODES, main

NODE_ID = "ab" * 28
DEAD = ["--address", "127.0.0.1:9", "--timeout", "0.5"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="no verb"),
        pytest.param(["--address", "nowhere", "alive"], id="no port"),
        pytest.param([*DEAD, "node", "--id", "xyz"], id="no node id"),
        pytest.param([*DEAD, "drain", "--id", NODE_ID, "--reason", "because"], id="unknown reason"),
        pytest.param(
            [*DEAD, "drain", "--id", NODE_ID, "--reason", "preemption", "--pool", "p"], id="half a slot"
        ),
        pytest.param([*DEAD, "slot", "claim", "--cluster", "c", "--pool", "P", "--node", "n"], id="bad name"),
        pytest.param(["--address", "h:1", "--timeout", "-1", "alive"], id="negative time-out"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "verb",
    [
        ["alive"],
        ["versions"],
        ["node", "--id", NODE_ID],
        ["drain", "--id", NODE_ID, "--reason", "preemption"],
        ["slot", "list", "--cluster", "c", "--pool", "p"],
    ],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_a_head_that_is_not_there_is_told_as_unreachable(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*DEAD, *verb]) == 7
    (line,) = capsys.readouterr().out.splitlines()
    assert "127.0.0.1:9" in json.dumps(json.loads(line))


def test_a_token_file_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_text("\n")
    for name in ("absent", "empty"):
        assert main([*DEAD, "--token-file", str(tmp_path / name), "alive"]) == 2
        assert name in capsys.readouterr().out


def test_every_outcome_of_a_drain_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(DrainOutcome)
