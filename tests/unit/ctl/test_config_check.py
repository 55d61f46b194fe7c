"""agentctl config check: whose file it is, and the daemon's own words passed through."""

from pathlib import Path

import pytest

from gpuherd_ctl.verbs.config_check import guess_role


@pytest.mark.parametrize(
    ("text", "role"),
    [
        pytest.param('pool = "a100"\n[gpu]\ndeclared = 8\n', "agent", id="a pool's name is the agent's"),
        pytest.param('[[pool]]\nname = "a100"\n', "autoscaler", id="a list of pools is the autoscaler's"),
        pytest.param("[scaler]\n", "autoscaler", id="scaler section"),
        pytest.param("not toml [", "agent", id="unreadable"),
    ],
)
def test_the_role_is_told_by_the_sections(tmp_path: Path, text: str, role: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(text)
    assert guess_role(file) == role
