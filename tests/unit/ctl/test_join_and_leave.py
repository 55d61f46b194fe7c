"""agentctl leave and join: what they send, what they follow, and what they say when the answer is no."""

import msgspec
import pytest
from tests.kit.rest_bodies import node, operation
from tests.kit.rest_server import Asked, RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.rest import DrainPreview, JoinRequest, LeaveRequest, OperationState, Problem

DONE = OperationState.DONE


def test_a_leave_is_previewed_and_followed_until_the_node_is_outside(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(asked: Asked) -> object:
        if msgspec.json.decode(asked.body, type=LeaveRequest).dry_run:
            return DrainPreview(node=node(), ray_activity=("2 tasks",))
        return operation(kind="leave")

    rest.on("POST", "/nodes/gpu-1:leave", answer)
    rest.on("GET", "/operations/op-1", operation(DONE, "draining", result="the node is outside"))
    assert agentctl("leave", "gpu-1") == 0
    sent = [msgspec.json.decode(a.body, type=LeaveRequest) for a in rest.asked if a.method == "POST"]
    assert [(request.dry_run, request.for_s, request.by) for request in sent] == [
        (True, None, "user:ada"),
        (False, None, "user:ada"),
    ]
    said = capsys.readouterr().out
    assert said.index("2 tasks") < said.index("draining") < said.index("the node is outside")


def test_a_join_is_followed_until_the_node_serves(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/nodes/gpu-1:join", operation(kind="join"))
    rest.on("GET", "/operations/op-1", operation(DONE, "the autoscaler is armed", result="the node serves"))
    assert agentctl("join", "gpu-1", "--reason", "new fan") == 0
    request = msgspec.json.decode(rest.asked[0].body, type=JoinRequest)
    assert (request.by, request.reason) == ("user:ada", "new fan")
    said = capsys.readouterr().out
    assert said.index("the autoscaler is armed") < said.index("the node serves")


def test_a_join_that_is_refused_says_why_and_the_others_go_on(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    no = Problem(title="Refused", status=409, detail="pool p has a max of 1", code="refused")
    rest.on("POST", "/nodes/gpu-1:join", no)
    rest.on("POST", "/nodes/gpu-2:join", operation(kind="join"))
    rest.on("GET", "/operations/op-1", operation(DONE, kind="join"))
    assert agentctl("join", "gpu-1") == 4
    assert agentctl("join", "gpu-[1-2]") == 3
    assert "gpu-1: pool p has a max of 1" in capsys.readouterr().err


def test_a_join_that_takes_longer_goes_on_and_is_not_taken_back_by_an_undrain(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/nodes/gpu-1:join", operation(kind="join"))
    rest.on("GET", "/operations/op-1", operation(OperationState.OPEN, kind="join"))
    assert agentctl("join", "gpu-1", "--timeout", "0.1") == 6
    said = capsys.readouterr().err
    assert "join of gpu-1 (op-1) goes on" in said
    assert "undrain" not in said
