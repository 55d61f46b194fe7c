"""Alerts and dashboard: each alert has a page and tests that pass, and each metric is really exported."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.kit.promtool import promtool
from tests.kit.repository import ROOT

from gpuherd.exposition import Kind
from gpuherd_agent.metrics_catalog import METRICS

RULE_FILES: Final = sorted(p for p in (ROOT / "alerts").glob("*.yml") if not p.name.endswith(".test.yml"))
TEST_FILES: Final = sorted((ROOT / "alerts").glob("*.test.yml"))
DASHBOARDS: Final = sorted((ROOT / "grafana").glob("*.json"))

_OURS: Final = re.compile(r"\bgpuherd_\w+")
_PANELS: Final = {"stat", "state-timeline", "timeseries", "table", "bargauge", "heatmap", "row"}
"""Types that Grafana ships today; ``graph`` and ``singlestat`` are gone from it."""


def rules() -> dict[str, dict[str, Any]]:
    found = {}
    for path in RULE_FILES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                found[rule["alert"]] = rule
    return found


def panels(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["panels"])


def queries() -> list[str]:
    found = [rule["expr"] for rule in rules().values()]
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
@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name)
def test_alerts_fire_and_stay_silent_as_told(path: Path) -> None:
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", rules())
def test_every_alert_has_a_page_that_says_what_to_do(alert: str) -> None:
    page = ROOT / "docs" / "runbook" / f"{alert}.md"
    assert rules()[alert]["annotations"]["runbook"] == str(page.relative_to(ROOT))
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {alert}\n")
    assert {"## Look", "## Do"} <= set(text.splitlines())


def test_every_page_belongs_to_an_alert() -> None:
    assert {page.stem for page in (ROOT / "docs" / "runbook").glob("Gpuherd*.md")} == set(rules())


@pytest.mark.parametrize("alert", rules())
def test_every_alert_is_tested_to_fire_and_to_stay_silent(alert: str) -> None:
    expected = [
        bool(check["exp_alerts"])
        for path in TEST_FILES
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for check in case["alert_rule_test"]
        if check["alertname"] == alert
    ]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("alert", rules())
def test_every_alert_waits_and_says_how_bad_it_is(alert: str) -> None:
    rule = rules()[alert]
    assert rule["for"] != "0s"
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert {"summary", "description", "runbook"} == set(rule["annotations"])


def test_every_metric_that_is_asked_for_is_exported() -> None:
    exported = {metric.name for metric in METRICS}
    asked = {name for query in queries() for name in _OURS.findall(query)}
    assert len(asked) > 10
    assert asked - exported == set()


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
