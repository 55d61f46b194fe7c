"""agentctl pause, resume, recommend and scale: what they send and what they print."""

import msgspec
import pytest
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.names import PoolName
from gpuherd.rest import Fleet, ModeRequest, PauseRequest, ResumeRequest, ScaleRequest, Wish, Wishes

ANN = Wish(by="user:ann", since=0.0, until=3_600.0, reason="new driver")
BOTH = Wishes(pause=ANN, sizes={PoolName("h200"): msgspec.structs.replace(ANN, nodes=3, reason="")})


def test_a_pause_is_sent_with_its_time_and_all_that_stands_is_printed(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/scaler:pause", BOTH)
    assert agentctl("pause", "--for", "2h", "--reason", "new driver") == 0
    sent = msgspec.json.decode(rest.asked[0].body, type=PauseRequest)
    assert sent == PauseRequest(by="user:ada", reason="new driver", for_s=7_200.0)
    said = capsys.readouterr().out
    assert "PAUSED    by user:ann until 1970-01-01" in said
    assert "size      pool h200: 3 nodes by user:ann until" in said


def test_a_pause_is_ended_by_resume(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/scaler:resume", Wishes())
    assert agentctl("resume") == 0
    assert msgspec.json.decode(rest.asked[0].body, type=ResumeRequest) == ResumeRequest(by="user:ada")
    assert "plans are carried out" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "nodes"), [("3", 3), ("0", 0), ("auto", None)])
def test_a_size_is_a_number_or_auto(rest: RestServer, agentctl: Call, typed: str, nodes: int | None) -> None:
    rest.on("POST", "/pools/h200:scale", BOTH)
    assert agentctl("scale", "h200", typed) == 0
    sent = msgspec.json.decode(rest.asked[0].body, type=ScaleRequest)
    assert (sent.nodes, sent.for_s, sent.by) == (nodes, None, "user:ada")


@pytest.mark.parametrize("typed", ["-1", "3.5", "many", "9999999"])
def test_what_is_no_size_is_not_sent(rest: RestServer, agentctl: Call, typed: str) -> None:
    with pytest.raises(SystemExit) as usage:
        agentctl("scale", "h200", typed)
    assert (usage.value.code, rest.asked) == (2, [])


def test_recommend_sets_the_mode_and_shows_what_is_set(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/scaler:mode", {"mode": "recommend"})
    rest.on("GET", "/fleet", Fleet(
        cluster="lab", mode="recommend", term=1, nodes=0, by_lifecycle={}, gpus_declared=0, gpus_counted=0,
        gpus_healthy=0, gpus_serving=0, wishes=BOTH))  # fmt: skip
    assert agentctl("recommend") == 0
    sent = msgspec.json.decode(rest.asked[0].body, type=ModeRequest)
    assert sent == ModeRequest(mode="recommend", by="user:ada")
    said = capsys.readouterr().out
    assert said.index("recommend") < said.index("PAUSED") < said.index("size")
