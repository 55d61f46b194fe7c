"""``agentctl rules``: the shipped rules as people and programs see them."""

import json
import subprocess
import sys
from pathlib import Path


def call(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "gpuherd_ctl", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_list_has_a_line_for_each_rule_with_its_ids_and_mode() -> None:
    done = call("rules", "list")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("remap_failed")]
    assert line.split()[:4] == ["remap_failed", "E5", "gpu", "enforce"]


def test_explain_names_limits_source_and_for_an_xid_rule_every_code() -> None:
    told = call("rules", "explain", "xid_reset").stdout
    assert "Xid 95    uncontained memory error [NVIDIA]" in told
    (rule,) = json.loads(call("-o", "json", "rules", "explain", "temperature_core").stdout)
    assert rule["limits"]["watch_margin_celsius"] == 5.0
    unknown = call("rules", "explain", "nothing")
    assert (unknown.returncode, "nothing" in unknown.stderr) == (8, True)


def test_test_plays_a_file_of_traces(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    story = '[[trace]]\nname = "lost"\nsource = "me"\nfor_s = 20\n[[trace.at]]\ns = 5\ngpu = 1\nlost = 15\n'
    path.write_text(story)
    done = call("rules", "test", str(path))
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED  lost  at 6 s: evict")
    path.write_text(story.replace("for_s", 'worst = "evict"\nfor_s'))
    assert call("rules", "test", str(path)).returncode == 0
    assert call("rules", "test", str(tmp_path / "none.toml")).returncode == 2
    path.write_text("[[trace]]\nname = 1")
    assert call("rules", "test", str(path)).returncode == 2
