"""The state document: a row a GPU, and a size that its readers take however much is wrong."""

import itertools

from tests.kit.node import GPUS, IDENTITY, RULES, serving
from tests.kit.readings import cycle, gpu, look

from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.names import GpuUuid
from gpuherd.wire.codec import MAX_BYTES, decode, encode
from gpuherd.wire.documents import State, Witness
from gpuherd_agent.readings import NvmlCode, Snapshot
from gpuherd_agent.state_document import FINDINGS_MAX, Told, compose, gpus
from gpuherd_agent.station import Station


def finding(rule: str, uuid: GpuUuid | None, action: Action, reason: str = "why") -> Finding:
    return Finding(rule=rule, severity=Severity.DEGRADED, action=action, reason=reason, gpu=uuid)


def told(snap: Snapshot, verdict: Verdict) -> State:
    return compose(
        Told(
            identity=IDENTITY,
            seq=1,
            wall=1e9,
            station=Station(),
            memory=serving(),
            snapshot=snap,
            verdict=verdict,
            of_gpus=verdict,
            witness=Witness(),
            work=(),
            ray_version="2.54.0",
            python_version="3.11.2",
            refused=None,
        ),
        RULES,
    )


def test_each_gpu_has_a_row_with_what_it_is_and_the_worst_of_its_findings() -> None:
    found = fold(
        [
            finding("temperature_core", GPUS[1], Action.WATCH, "hot"),
            finding("ecc_uncorrected", GPUS[1], Action.DRAIN, "wrong bits"),
            finding("host_memory", None, Action.WATCH, "short of memory"),
        ]
    )
    snap = look(cycle(gpu(0, model="H200"), gpu(1), gpu(2, errors={"memory": NvmlCode.GPU_IS_LOST})))
    rows = gpus(snap, found)
    assert [(r.index, r.present, r.healthy, r.action.value) for r in rows] == [
        (0, True, True, "none"),
        (1, True, False, "drain"),
        (2, False, False, "none"),
    ]
    assert (rows[0].model, rows[1].reason) == ("H200", "wrong bits; hot")
    assert [r.severity.value for r in rows] == ["ok", "degraded", "unknown"]


def test_a_document_of_64_sick_gpus_is_small_enough_for_its_readers() -> None:
    uuids = [GpuUuid(f"GPU-{i:08d}-1111-2222-3333-444444444444") for i in range(64)]
    found = [
        finding(f"rule_number_{rule}", uuid, Action.DRAIN, f"{uuid}: " + "something is wrong here. " * 60)
        for uuid, rule in itertools.product(uuids, range(8))
    ]
    snap = look(cycle(*(gpu(i, gpu=uuid, model="NVIDIA H200 " * 20) for i, uuid in enumerate(uuids))))
    payload = encode(told(snap, fold(found)))
    assert len(payload) < MAX_BYTES
    assert len(decode(payload, State).verdict.findings) == FINDINGS_MAX
