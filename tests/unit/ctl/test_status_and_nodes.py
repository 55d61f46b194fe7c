"""What is printed of the fleet and its nodes, as a table and as JSON."""

import json

import pytest
from tests.kit.rest_bodies import fleet, node
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.health import Action, Finding, Severity
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName
from gpuherd.phases import Lifecycle
from gpuherd.rest import Nodes
from gpuherd.rest_plan import History, Plan


def test_status_is_one_screen_with_the_odd_nodes_below(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    sick = node("gpu-2", lifecycle=Lifecycle.DRAINING, reason="GPU 5 fell off the bus")
    rest.on("GET", "/fleet", fleet(frozen="sight of 1 of 3"))
    rest.on("GET", "/nodes", Nodes(nodes=(node(), sick)))
    assert agentctl("status") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nodes     3: 1 serving, 2 standby" in lines
    assert "queue     14 x {GPU: 1}" in lines
    assert "FROZEN    sight of 1 of 3" in lines
    assert lines[-1] == "gpu-2  draining  GPU 5 fell off the bus"


def test_status_as_json_is_the_body_of_the_api(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/fleet", fleet())
    assert agentctl("status", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["gpus_serving"] == 8


def test_global_options_may_stand_before_the_verb(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/fleet", fleet())
    assert agentctl("-o", "json", "--socket", str(rest.path), "status") == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == "demo"


def test_nodes_is_a_table_as_wide_as_its_cells(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/nodes", Nodes(nodes=(node(idle_s=3661.0), node("gpu-22", gpus_counted=None))))
    assert agentctl("nodes") == 0
    assert capsys.readouterr().out.splitlines() == [
        "NODE    POOL  STATE    HEALTH  GPUS   RAY      IDLE  REASON",
        "gpu-1   a100  serving  ok      8/8/8  running  1h1m  wanted by the queue",
        "gpu-22  a100  serving  ok      8/?/8  running  -     wanted by the queue",
    ]


def test_a_range_asks_for_each_node_and_one_unknown_name_is_not_found(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/nodes/gpu-01", node("gpu-01"))
    rest.on("GET", "/nodes/gpu-02", node("gpu-02"))
    assert agentctl("nodes", "gpu-[01-02]") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert agentctl("nodes", "gpu-[01-03]") == 8


def test_reasons_name_who_holds_a_node_and_why(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = Hold(
        id=HoldId("h1"), owner="user:ada", kind=HoldKind.DRAIN, reason="new disk", since=1.0, for_s=90.0
    )
    finding = Finding(rule="dropout", severity=Severity.CRITICAL, action=Action.DRAIN, reason="7 of 8 GPUs")
    rest.on("GET", "/nodes", Nodes(nodes=(node(holds=(hold,), findings=(finding,)), node("gpu-2"))))
    assert agentctl("nodes", "-R") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "gpu-1  user:ada    drain  new disk (for 1m30s, then wait) [h1]"
    assert lines[2] == "gpu-1  dropout     drain  7 of 8 GPUs"
    assert len(lines) == 3


def test_what_stands_in_the_way_is_shown_wherever_a_node_is(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = node(
        obstacles=("head_silent",), blockers=("task train x2", "objects, 12 MiB"), latecomers=("task new",)
    )
    rest.on("GET", "/nodes", Nodes(nodes=(stuck,)))
    rest.on("GET", "/nodes/gpu-1", stuck)
    rest.on("GET", "/plan", Plan(decision=1, at=0.0, mode="enforce", reasons={}, kept={}))
    rest.on("GET", "/nodes/gpu-1/history?limit=5", History(node=NodeName("gpu-1")))
    for words in (("nodes", "-R"), ("nodes", "gpu-1"), ("why", "gpu-1")):
        assert agentctl(*words) == 0
        said = capsys.readouterr().out
        for part in (
            "obstacle",
            "head_silent",
            "blocks",
            "task train x2",
            "objects, 12 MiB",
            "LATE",
            "task new",
        ):
            assert part in said, words


def test_control_characters_from_outside_never_reach_the_terminal(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/nodes", Nodes(nodes=(node(reason="\x1b[2Jgone"),)))
    assert agentctl("nodes") == 0
    assert "\x1b" not in capsys.readouterr().out
