"""agentctl drain and undrain: preview, steps as they are observed, detaching, several nodes."""

import argparse
import io
import json

import msgspec
import pytest
from tests.kit.rest_bodies import node, operation
from tests.kit.rest_server import Asked, RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId
from gpuherd.phases import Phase
from gpuherd.rest import (
    CommandRequest,
    DrainPreview,
    DrainRequest,
    Node,
    Operation,
    OperationState,
    Problem,
    UndrainRequest,
)
from gpuherd_ctl.client import Scaler
from gpuherd_ctl.durations import parse_duration, show_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import follow
from gpuherd_ctl.output import Paper
from gpuherd_ctl.session import Session

DONE = OperationState.DONE


def _drains(rest: RestServer, *names: str) -> None:
    for name in names:

        def answer(asked: Asked, name: str = name) -> object:
            if msgspec.json.decode(asked.body, type=DrainRequest).dry_run:
                return DrainPreview(
                    node=node(name), ray_activity=("2 tasks",), effects=("rejoins when empty",)
                )
            return operation(id=f"op-{name}", node=name)

        rest.on("POST", f"/nodes/{name}:drain", answer)
        rest.on("GET", f"/operations/op-{name}", operation(DONE, "held", "left", id=f"op-{name}", node=name))


def _sent(rest: RestServer) -> list[DrainRequest]:
    return [msgspec.json.decode(a.body, type=DrainRequest) for a in rest.asked if a.path.endswith(":drain")]


def test_one_node_is_previewed_drained_and_followed_without_a_question(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    _drains(rest, "gpu-1")
    assert agentctl("drain", "gpu-1", "--reason", "new disk", "--for", "1h30m", "--on-deadline", "stop") == 0
    dry, real = _sent(rest)
    assert (dry.dry_run, real.dry_run) == (True, False)
    assert (real.by, real.reason, real.for_s, real.on_deadline) == ("user:ada", "new disk", 5400.0, "stop")
    said = capsys.readouterr().out
    assert said.index("work here  2 tasks") < said.index("gpu-1  held") < said.index("gpu-1  left")
    assert "gpu-1  done in 1m5s" in said


def test_a_dry_run_changes_nothing(rest: RestServer, agentctl: Call) -> None:
    _drains(rest, "gpu-1")
    assert agentctl("drain", "gpu-1", "--dry-run") == 0
    assert [request.dry_run for request in _sent(rest)] == [True]


def test_without_waiting_the_operation_is_only_named(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    _drains(rest, "gpu-1")
    assert agentctl("drain", "gpu-1", "--no-wait", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["operations"][0]["state"] == "open"
    assert not [a for a in rest.asked if a.method == "GET"]


def test_several_nodes_want_a_yes_when_nobody_can_be_asked(
    rest: RestServer, agentctl: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    _drains(rest, "gpu-1", "gpu-2")
    assert agentctl("drain", "gpu-[1-2]") == 2
    assert all(request.dry_run for request in _sent(rest))
    assert agentctl("drain", "gpu-[1-2]", "--yes") == 0


def test_one_refused_of_two_is_partial_and_the_other_goes_on(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    _drains(rest, "gpu-1")
    refusal = Problem(title="Refused", status=403, detail="budget 1 is out", code="refused", hint="wait")
    rest.on("POST", "/nodes/gpu-2:drain", refusal)
    assert agentctl("drain", "gpu-1", "gpu-2", "--yes") == 3
    assert "gpu-2: budget 1 is out (wait)" in capsys.readouterr().err


def test_all_refused_keeps_the_reason_as_exit_code(rest: RestServer, agentctl: Call) -> None:
    rest.on("POST", "/nodes/gpu-2:drain", Problem(title="No", status=403, detail="no", code="refused"))
    assert agentctl("drain", "gpu-2") == 4


def test_undrain_lifts_the_named_hold_only(rest: RestServer, agentctl: Call) -> None:
    rest.on("POST", "/nodes/gpu-1:undrain", operation(DONE, kind="undrain"))
    assert agentctl("undrain", "gpu-1", "--hold", "h7") == 0
    request = msgspec.json.decode(rest.asked[0].body, type=UndrainRequest)
    assert (request.by, request.hold) == ("user:ada", "h7")


def _undrains(rest: RestServer, now: Node) -> None:
    rest.on("GET", "/nodes/gpu-1", now)
    rest.on("POST", "/nodes/gpu-1:undrain", operation(DONE, kind="undrain"))
    rest.on("POST", "/nodes/gpu-1/commands", operation(DONE, id="op-2", kind="command"))


def test_undrain_now_lifts_and_ends_what_runs_on_this_raylet(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    hold = Hold(id=HoldId("h"), owner="user:ada", kind=HoldKind.DRAIN, reason="fan", since=0.0)
    _undrains(
        rest, node(phase=Phase.DRAINING, holds=(hold,), blockers=("task train x2",), ray_node_id="ab" * 28)
    )
    assert agentctl("undrain", "gpu-1", "--now", "--reason", "urgent job") == 0
    lift, end = [a for a in rest.asked if a.method == "POST"]
    assert lift.path.endswith(":undrain")
    command = msgspec.json.decode(end.body, type=CommandRequest)
    assert (command.verb, command.arguments, command.by, command.reason) == (
        "end-drain",
        {"raylet": "ab" * 28},
        "user:ada",
        "urgent job",
    )
    assert "gpu-1  ends task train x2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("phase", "is_held", "asks"),
    [
        pytest.param(Phase.DRAINING, False, ["/nodes/gpu-1/commands"], id="undrained before: only the end"),
        pytest.param(Phase.OUTSIDE, True, ["/nodes/gpu-1:undrain"], id="outside: only the lift"),
        pytest.param(Phase.MEMBER, False, ["/nodes/gpu-1/commands"], id="serving: its agent says no"),
    ],
)
def test_undrain_now_asks_only_for_what_is_left_to_do(
    rest: RestServer, agentctl: Call, phase: Phase, is_held: bool, asks: list[str]
) -> None:
    hold = Hold(id=HoldId("h"), owner="user:ada", kind=HoldKind.DRAIN, reason="fan", since=0.0)
    _undrains(rest, node(phase=phase, holds=(hold,) if is_held else ()))
    agentctl("undrain", "gpu-1", "--now")
    assert [a.path.removeprefix("/api/v1") for a in rest.asked if a.method == "POST"] == asks


def test_ending_work_on_several_nodes_wants_a_yes(
    rest: RestServer, agentctl: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert agentctl("undrain", "gpu-[1-2]", "--now") == 2
    assert rest.asked == []


class _Waits:
    """Counts the waits; raises at the given one, as Ctrl-C does."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.count = 0
        self.interrupt_at = interrupt_at

    def __call__(self, _seconds: float) -> None:
        self.count += 1
        if self.count == self.interrupt_at:
            raise KeyboardInterrupt


def _follow(
    rest: RestServer, waits: _Waits, timeout_s: float | None = None
) -> tuple[list[ExitCode], str, str]:
    out, err = io.StringIO(), io.StringIO()
    session = Session(
        scaler=Scaler(str(rest.path)), paper=Paper(out=out, err=err), user="user:ada", wait=waits
    )
    codes = follow(session, [operation()], timeout_s=timeout_s, wait=True)
    return codes, out.getvalue(), err.getvalue()


def test_each_step_is_printed_once_when_it_is_observed(rest: RestServer) -> None:
    open_ = OperationState.OPEN
    rest.on(
        "GET",
        "/operations/op-1",
        operation(open_, "held"),
        operation(open_, "held"),
        operation(DONE, "held", "empty", "left"),
    )
    codes, out, _ = _follow(rest, _Waits())
    assert codes == [ExitCode.DONE]
    assert [out.count(word) for word in ("held", "empty", "left")] == [1, 1, 1]


def test_the_keyboard_detaches_and_the_drain_goes_on(rest: RestServer) -> None:
    rest.on("GET", "/operations/op-1", operation(OperationState.OPEN, "held"))
    codes, _, err = _follow(rest, _Waits(interrupt_at=2))
    assert codes == [ExitCode.DETACHED]
    assert "detached: drain of gpu-1 (op-1) goes on" in err


def test_waiting_ends_at_the_time_out_and_the_drain_goes_on(rest: RestServer) -> None:
    rest.on("GET", "/operations/op-1", operation(OperationState.OPEN))
    codes, _, err = _follow(rest, _Waits(), timeout_s=2.0)
    assert codes == [ExitCode.TIMED_OUT]
    assert "no end within 2s" in err


@pytest.mark.parametrize("state", [OperationState.FAILED, OperationState.ABANDONED])
def test_an_operation_without_success_fails(rest: RestServer, state: OperationState) -> None:
    closed: Operation = operation(state, result="the node never answered")
    rest.on("GET", "/operations/op-1", closed)
    codes, out, _ = _follow(rest, _Waits())
    assert codes == [ExitCode.FAILED]
    assert "the node never answered" in out


def test_an_autoscaler_that_is_away_for_a_while_is_asked_again(rest: RestServer) -> None:
    away = Problem(title="Starting", status=503, detail="starting", code="starting")
    rest.on("GET", "/operations/op-1", away, away, operation(DONE, "left"))
    codes, _, err = _follow(rest, _Waits())
    assert codes == [ExitCode.DONE]
    assert err.count("asking again") == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("1h30m", 5400.0), ("2d", 172_800.0), ("1.5h", 5400.0)],
)
def test_durations_are_read_as_people_type_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1x", "h", "-5", "0", "1h 30m", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.2, "0s"),
        (59.0, "59s"),
        (60.0, "1m"),
        (3661.0, "1h1m"),
        (90_061.0, "1d1h"),
        (3605.0, "1h"),
    ],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float | None, text: str) -> None:
    assert show_duration(seconds) == text
