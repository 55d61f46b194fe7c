"""The verbs that explain: plan, why, decisions, history."""

import json
from pathlib import Path

import pytest
from tests.kit import rest_bodies
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.verbs.plan import instant, read_demand

PLAN = {
    "decision": 7,
    "at": 0.0,
    "mode": "enforce",
    "serve": ["n-2"],
    "reasons": {"n-2": "8 x {GPU: 1} wait"},
    "kept": {"n-1": "idle for 5 of 600 s"},
    "refusals": [{"rule": "max", "figure": 3.0, "text": "it is at its max of 3", "pool": "p"}],
    "demand": [{"resources": {"GPU": 1.0}, "count": 8}],
    "demand_known": True,
    "infeasible": [{"resources": {"GPU": 16.0}, "count": 1}],
}


def test_an_instant_is_iso_time_or_how_long_ago() -> None:
    assert instant("2h", 10_000.0) == 10_000.0 - 7_200.0
    assert instant("1970-01-01T00:00:10+00:00", 0.0) == 10.0
    with pytest.raises(Trouble, match="no time") as refused:
        instant("yesterday", 0.0)
    assert refused.value.code is ExitCode.USAGE


@pytest.mark.parametrize("text", ["", "{}", '[{"resources": "x", "count": 1}]', "[1]"])
def test_a_bad_demand_file_says_what_it_should_hold(tmp_path: Path, text: str) -> None:
    path = tmp_path / "demand.json"
    path.write_text(text)
    with pytest.raises(Trouble, match=r"demand\.json"):
        read_demand(path)


def played(rest: RestServer) -> None:
    past = {
        "node": "n-1",
        "events": [{"id": 3, "at": 0.0, "kind": "drain.done", "reason": "fan changed", "node": "n-1"}],
        "operations": [],
    }
    rest.on("GET", "/plan", PLAN)
    rest.on("GET", "/decisions/7", PLAN)
    for name in ("n-1", "n-2"):
        rest.on("GET", f"/nodes/{name}", rest_bodies.node(name, pool="p"))
        rest.on("GET", f"/nodes/{name}/history?limit=5", past)
        rest.on("GET", f"/nodes/{name}/history?limit=50", past)


def test_plan_says_what_is_asked_refused_and_never_possible(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    played(rest)
    assert agentctl("plan") == 0
    out = capsys.readouterr().out
    assert "serve     n-2: 8 x {GPU: 1} wait" in out
    assert "refused   max: it is at its max of 3" in out
    assert "never     1 x {GPU: 16} fits no pool" in out
    assert "kept" not in out
    assert agentctl("plan", "--all") == 0
    assert "kept      n-1: idle for 5 of 600 s" in capsys.readouterr().out


def test_why_a_node_is_as_it_is_names_plan_and_past(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    played(rest)
    assert agentctl("why", "n-1") == 0
    out = capsys.readouterr().out
    assert "kept      decision 7: idle for 5 of 600 s" in out
    assert "drain.done: fan changed" in out
    assert agentctl("why", "n-2") == 0
    assert "serve     decision 7: 8 x {GPU: 1} wait" in capsys.readouterr().out


def test_why_a_decision_lists_every_node(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    played(rest)
    assert agentctl("why", "7") == 0
    assert "kept      n-1" in capsys.readouterr().out


def test_decisions_are_listed_oldest_first_with_how_often(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"at": 0.0, "last_at": 5.0, "times": 2, "term": 3, "mode": "enforce", "words": "no change"}
    rest.on("GET", "/decisions?limit=20", {"decisions": [{"id": 2, **line}, {"id": 1, **line}]})
    assert agentctl("decisions") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [each.split()[0] for each in lines] == ["ID", "1", "2"]
    assert "x2" in lines[1]


def test_history_and_a_plan_with_more_demand(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    played(rest)
    assert agentctl("history", "n-1") == 0
    assert "fan changed" in capsys.readouterr().out
    rest.on("POST", "/plan", {**PLAN, "decision": 0})
    demand = tmp_path / "demand.json"
    demand.write_text('[{"resources": {"GPU": 8}, "count": 2}]')
    assert agentctl("plan", "--demand", str(demand)) == 0
    assert json.loads(rest.asked[-1].body) == {"demand": [{"resources": {"GPU": 8.0}, "count": 2}]}
