"""agentctl prometheus: Prometheus takes the configuration that it prints, and a list is written whole."""

import json
from pathlib import Path

import pytest
import yaml
from tests.kit.promtool import promtool
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.rest_prometheus import Scraping, TargetGroup

GROUP = TargetGroup(targets=("gpu-1:9440",), labels={"cluster": "lab", "pool": "h200", "node": "gpu-1"})
HERD = Scraping(cluster="lab", scaler="127.0.0.1:9441", agents=(GROUP,))


@pytest.mark.prometheus
@pytest.mark.parametrize("has_page", [True, False], ids=["with a page", "without one"])
@pytest.mark.parametrize("words", [(), ("--file-sd", "/x/agents.json")], ids=["http", "file"])
def test_prometheus_takes_the_configuration(
    rest: RestServer,
    agentctl: Call,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
    has_page: bool,
) -> None:
    rest.on("GET", "/prometheus", HERD if has_page else Scraping(cluster="lab", agents=(GROUP,)))
    assert agentctl("prometheus", "config", *words) == 0
    text = capsys.readouterr().out
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    done = promtool("check", "config", "--lint=all", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}
    assert set(jobs) == {"gpuherd-agent", "ray"} | ({"gpuherd-autoscaler"} if has_page else set())
    if words:
        assert jobs["gpuherd-agent"]["file_sd_configs"] == [{"files": ["/x/agents.json"]}]
    elif has_page:
        url = "http://127.0.0.1:9441/api/v1/prometheus/targets"
        assert jobs["gpuherd-agent"]["http_sd_configs"][0]["url"] == url
    else:
        assert "agentctl prometheus file-sd --out" in text


def test_names_that_yaml_would_read_otherwise_are_quoted(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/prometheus", Scraping(cluster="no", scaler="[::1]:9441"))
    assert agentctl("prometheus", "config", "--rules", "/r: {") == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert found["rule_files"] == ["/r: {/gpuherd-*.yml"]
    assert found["scrape_configs"][1]["static_configs"] == [
        {"targets": ["[::1]:9441"], "labels": {"cluster": "no"}}
    ]


def test_the_list_is_printed_or_written_whole(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rest.on("GET", "/prometheus", HERD)
    wanted = [{"targets": ["gpu-1:9440"], "labels": GROUP.labels}]
    assert agentctl("prometheus", "file-sd") == 0
    assert json.loads(capsys.readouterr().out) == wanted
    out = tmp_path / "agents.json"
    out.write_text("old")
    assert agentctl("prometheus", "file-sd", "--out", str(out)) == 0
    assert json.loads(out.read_text()) == wanted
    assert list(tmp_path.iterdir()) == [out]


def test_a_place_that_cannot_be_written_is_named(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rest.on("GET", "/prometheus", HERD)
    out = tmp_path / "none" / "agents.json"
    assert agentctl("prometheus", "file-sd", "--out", str(out)) == 1
    assert f"{out}: No such file" in capsys.readouterr().err
