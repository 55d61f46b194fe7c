"""Alerts and dashboard: each alert has a page and tests that pass, and each metric is really exported."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.kit.alert_cases import cases, seconds, trials
from tests.kit.promtool import promtool
from tests.kit.repository import ROOT

from gpuherd.exposition import Kind
from gpuherd_agent.metrics_catalog import METRICS as AGENT
from gpuherd_autoscaler.metrics_catalog import METRICS as SCALER

METRICS: Final = (*AGENT, *SCALER)

RULE_FILES: Final = sorted((ROOT / "alerts").glob("gpuherd-*.yml"))
CASES: Final = cases()
DASHBOARDS: Final = sorted((ROOT / "grafana").glob("*.json"))

_OURS: Final = re.compile(r"\bgpuherd_\w+")
_RAYS: Final = re.compile(r"\bray_\w+")
_PANELS: Final = {"stat", "state-timeline", "timeseries", "table", "bargauge", "heatmap", "row"}
"""Types that Grafana ships today; ``graph`` and ``singlestat`` are gone from it."""


def every_rule() -> list[dict[str, Any]]:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULE_FILES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def rules(*paths: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in paths or RULE_FILES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            found.update({rule["alert"]: rule for rule in group["rules"] if "alert" in rule})
    return found


def panels(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["panels"])


def queries() -> list[str]:
    found = [rule["expr"] for rule in every_rule()]
    for path in DASHBOARDS:
        found += [target["expr"] for panel in panels(path) for target in panel["targets"]]
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        found += [note["expr"] for note in dashboard["annotations"]["list"]]
    return found


@pytest.mark.prometheus
@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_promtool_accepts_the_rules(path: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prometheus
@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_alerts_fire_end_and_stay_silent_as_told(path: Path, tmp_path: Path) -> None:
    """Rows of one step share an evaluation interval, and so a file."""
    of_file = [CASES[alert] for alert in rules(path) if alert in CASES]
    for step_s in {case.step_s for case in of_file}:
        tests = [
            t for case in of_file if case.step_s == step_s for t in trials(case, rules(path)[case.alert])
        ]
        file = tmp_path / f"{step_s}.yml"
        whole = {"rule_files": [str(path)], "evaluation_interval": f"{step_s}s", "tests": tests}
        file.write_text(yaml.safe_dump(whole), encoding="utf-8")
        done = promtool("test", "rules", str(file))
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_row_of_tests() -> None:
    assert set(CASES) == set(rules())


@pytest.mark.parametrize("alert", rules())
def test_every_alert_has_a_page_that_says_what_to_do(alert: str) -> None:
    page = ROOT / "docs" / "runbook" / f"{alert}.md"
    assert rules()[alert]["annotations"]["runbook_url"] == str(page.relative_to(ROOT))
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {alert}\n")
    assert {"## Look", "## Do"} <= set(text.splitlines())


def test_every_page_belongs_to_an_alert() -> None:
    assert {page.stem for page in (ROOT / "docs" / "runbook").glob("Gpuherd*.md")} == set(rules())


@pytest.mark.parametrize("alert", rules())
def test_every_alert_waits_and_says_how_bad_it_is(alert: str) -> None:
    rule = rules()[alert]
    assert seconds(rule["for"]) > 0
    assert seconds(rule["keep_firing_for"]) > 0
    assert rule["labels"]["severity"] in {"critical", "warning", "none"}
    assert rule["labels"]["layer"] in {"resource", "fleet", "task", "service", "scaler", "self"}
    assert {"summary", "description", "runbook_url", "dashboard_url"} == set(rule["annotations"])
    uids = {json.loads(path.read_text(encoding="utf-8"))["uid"] for path in DASHBOARDS}
    assert rule["annotations"]["dashboard_url"].removeprefix("/d/") in uids


def test_every_layer_has_alerts() -> None:
    layers = {rule["labels"]["layer"] for rule in rules().values()}
    assert layers == {"resource", "fleet", "task", "service", "scaler", "self"}


@pytest.mark.parametrize("alert", rules())
def test_a_text_asks_only_for_labels_that_the_alert_has(alert: str) -> None:
    for text in rules()[alert]["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= set(CASES[alert].labels)


def test_every_metric_that_is_asked_for_is_exported() -> None:
    exported = {metric.name for metric in METRICS}
    asked = {name for query in queries() for name in _OURS.findall(query) if ":" not in name}
    assert len(asked) > 10
    assert asked - exported == set()


def test_every_metric_of_ray_that_is_asked_for_is_one_that_ray_exports() -> None:
    seen = tomllib.loads((ROOT / "tests" / "docs" / "ray_metrics.toml").read_text(encoding="utf-8"))
    for query in queries():
        plain = re.sub(r"gpuherd:\w+", "", query)
        for name in _RAYS.findall(plain):
            assert name in seen, query
        for name, matchers in re.findall(r"(ray_\w+)\{([^}]*)\}", plain):
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert used <= {*seen[name], "job", "instance"}, query


def test_every_label_that_is_matched_belongs_to_its_metric() -> None:
    labels = {metric.name: set(metric.labels) | {"job", "instance"} for metric in METRICS}
    wrong = []
    for query in queries():
        for name, matchers in re.findall(r"(gpuherd_\w+)\{([^}]*)\}", query):
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            wrong += [f"{name}: {label}" for label in used - labels[name]]
    assert wrong == []


def test_a_counter_is_only_shown_as_what_it_grows_by() -> None:
    counters = [metric.name for metric in METRICS if metric.kind is Kind.COUNTER]
    bare = [
        query
        for query in queries()
        for name in counters
        if name in query and not re.search(rf"(rate|increase)\({name}\b", query)
    ]
    assert bare == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_has_titles_units_and_no_type_that_is_gone(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    shown = panels(path)
    assert dashboard["uid"] == f"gpuherd-{path.stem}"
    assert {panel["type"] for panel in shown} <= _PANELS
    assert len({panel["id"] for panel in shown}) == len(shown)
    for panel in shown:
        assert panel["title"], panel["id"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_no_two_panels_lie_over_each_other(path: Path) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels(path):
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies over {taken.get((x, y))}"
                taken[x, y] = panel["title"]


@pytest.mark.prometheus
def test_prometheus_can_read_every_query_of_a_dashboard(tmp_path: Path) -> None:
    groups = [
        {
            "name": path.stem,
            "rules": [
                {"record": f"panel_{number}", "expr": _filled(query)}
                for number, query in enumerate(queries())
            ],
        }
        for path in DASHBOARDS
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    done: subprocess.CompletedProcess[str] = promtool("check", "rules", "--lint=none", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def _filled(query: str) -> str:
    return query.replace("$__rate_interval", "1m").replace("$__interval", "30s").replace("$instance", ".*")
