"""agentctl ack and gpus."""

import msgspec
import pytest
from tests.kit.rest_bodies import operation
from tests.kit.rest_server import RestServer
from tests.unit.ctl.conftest import Call

from gpuherd.health import Action, Severity
from gpuherd.names import GpuUuid, NodeName
from gpuherd.rest import CommandRequest, Gpu, Gpus, OperationState

DONE, FAILED = OperationState.DONE, OperationState.FAILED


def gpu(index: int, **changes: object) -> Gpu:
    plain = Gpu(
        node=NodeName("gpu-1"),
        uuid=GpuUuid(f"GPU-{index}"),
        index=index,
        model="H200",
        pci_bus_id=f"0000:{index:02x}:00.0",
        present=True,
        healthy=True,
        severity=Severity.OK,
        action=Action.NONE,
        reason="",
    )
    return msgspec.structs.replace(plain, **changes)


LOST = gpu(1, present=False, healthy=False, action=Action.EVICT, severity=Severity.CRITICAL, reason="is lost")


def test_an_ack_names_finding_gpu_person_and_reason_and_tells_the_end(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("POST", "/nodes/gpu-1/commands", operation(kind="command"))
    rest.on(
        "GET", "/operations/op-1", operation(DONE, "accepted", "running", result="ended gpu_lost of GPU-1")
    )
    assert agentctl("ack", "gpu-1", "gpu_lost", "--gpu", "GPU-1", "--reason", "swapped") == 0
    sent = msgspec.json.decode(rest.asked[0].body, type=CommandRequest)
    assert sent == CommandRequest(
        verb="ack", arguments={"finding": "gpu_lost", "gpu": "GPU-1"}, by="user:ada", reason="swapped"
    )
    assert "done in 1m5s: ended gpu_lost of GPU-1" in capsys.readouterr().out


def test_an_ack_that_the_node_refuses_is_refused(rest: RestServer, agentctl: Call) -> None:
    rest.on("POST", "/nodes/gpu-1/commands", operation(kind="command"))
    rest.on("GET", "/operations/op-1", operation(FAILED, result="refused: no latched finding is meant"))
    assert agentctl("ack", "gpu-1", "--reason", "swapped") == 4


def test_an_ack_without_a_reason_is_no_usage(agentctl: Call) -> None:
    with pytest.raises(SystemExit) as ended:
        agentctl("ack", "gpu-1")
    assert ended.value.code == 2


def test_gpus_are_listed_a_line_each_and_a_lost_one_stands_out(
    rest: RestServer, agentctl: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.on("GET", "/gpus", Gpus(gpus=(gpu(0), LOST)))
    rest.on("GET", "/nodes/gpu-1/gpus", Gpus(gpus=(LOST,)))
    assert agentctl("gpus") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in lines] == [["GPU", "UUID"], ["0", "GPU-0"], ["1", "GPU-1"]]
    assert "LOST" in lines[2]
    assert agentctl("gpus", "--sick") == 0
    assert "GPU-0" not in capsys.readouterr().out
    assert agentctl("gpus", "gpu-1", "-o", "json") == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=Gpus).gpus == (LOST,)
