"""What GPUs and host tell before a join: each refusal says what it is and how to mend it."""

from dataclasses import replace

import pytest
from tests.kit.readings import GIB, cycle, failed, gpu, look, uuid

from gpuherd.preflight import Check, Preflight
from gpuherd_agent import fitness
from gpuherd_agent.doors import HookEnded, Smoked, SmokeOutcome
from gpuherd_agent.memory import Board, NodeMemory
from gpuherd_agent.readings import GpuReading, HostReading, ProbeOutcome, Snapshot

HOST = HostReading(
    memory_total_bytes=512 * GIB,
    memory_available_bytes=400 * GIB,
    disk_total_bytes=GIB,
    disk_free_bytes=GIB,
    shm_free_bytes=None,
    load_1m=0.0,
    cpu_count=32,
    uptime_s=1.0,
)


def board(index: int, **changed: object) -> Board:
    fields: dict[str, object] = {
        "gpu": uuid(index),
        "serial": f"S{index}",
        "vbios": "96.00",
        "ecc_uncorrected_total": 2,
    }
    return Board(**{**fields, **changed})  # type: ignore[arg-type]


def seen(*gpus: GpuReading, host: HostReading | None = HOST) -> Snapshot:
    return replace(look(cycle(*gpus)), host=host)


def judged(snapshot: Snapshot, *accepted: Board) -> dict[str, Check]:
    good = [g.gpu for g in snapshot.probe.gpus] if snapshot.probe else []
    return {c.code: c for c in fitness.checks(snapshot, good, NodeMemory(accepted=accepted))}


def one(index: int = 0, **changed: object) -> GpuReading:
    fields: dict[str, object] = {
        "serial": f"S{index}",
        "vbios": "96.00",
        "ecc_uncorrected_aggregate_total": 2,
        "is_persistent": True,
        "link_width": 16,
        "link_width_max": 16,
        "is_row_remap_pending": False,
        "is_row_remap_failed": False,
    }
    return gpu(index, **{**fields, **changed})


def test_a_host_as_it_was_accepted_passes_without_a_warning() -> None:
    report = Preflight(checks=tuple(judged(seen(one(0), one(1)), board(0), board(1)).values()))
    assert report.passed
    assert report.warnings == ()
    assert {c.code for c in report.checks} == {
        "gpu_identity",
        "ecc_baseline",
        "temperature",
        "row_remap",
        "link_width",
        "persistence",
        "cores_per_gpu",
        "memory_for_gpus",
    }


STRANGE = seen(one(9))
SERIAL = seen(one(0, serial="S7"))
VBIOS = seen(one(0, vbios="97.00"))
ERRORS = seen(one(0, ecc_uncorrected_aggregate_total=5))
HOT = seen(one(0, core_celsius=89.0))
PENDING = seen(one(0, is_row_remap_pending=True))
FAILED = seen(one(0, is_row_remap_failed=True))
NARROW = seen(one(0, link_width=8))
MISMATCH = look(failed(ProbeOutcome.NO_DRIVER, code=18))


@pytest.mark.parametrize(
    ("snapshot", "code", "what", "mend"),
    [
        pytest.param(
            STRANGE, "gpu_identity", "GPU GPU-9 was not here", "agentctl accept", id="a strange board"
        ),
        pytest.param(
            SERIAL, "gpu_identity", "number S7, accepted was S0", "agentctl accept", id="another serial"
        ),
        pytest.param(
            VBIOS, "gpu_identity", "97.00, accepted was 96.00", "agentctl accept", id="another VBIOS"
        ),
        pytest.param(ERRORS, "ecc_baseline", "3 uncorrected", "reset the GPU", id="memory errors"),
        pytest.param(HOT, "temperature", "at 89 °C", "fans", id="hot"),
        pytest.param(PENDING, "row_remap", "waits for a row", "reset the GPU", id="remap pending"),
        pytest.param(FAILED, "row_remap", "used up its spare rows", "replaced", id="remap failed"),
        pytest.param(NARROW, "link_width", "8 of 16 PCIe lanes", "seat the board", id="a narrow link"),
        pytest.param(MISMATCH, "driver_library_match", "different versions", "reboot", id="mismatch"),
    ],
)
def test_a_refusal_says_what_it_is_and_how_to_mend_it(
    snapshot: Snapshot, code: str, what: str, mend: str
) -> None:
    check = judged(snapshot, board(0))[code]
    assert (check.passed, check.is_warning) == (False, False)
    assert what in check.what
    assert mend in check.mend
    assert mend in Preflight(checks=(check,)).reason


def test_a_host_that_never_joined_is_taken_as_it_is() -> None:
    assert "gpu_identity" not in judged(seen(one(0)))


def test_what_the_driver_does_not_tell_is_no_difference() -> None:
    told = judged(seen(one(0, serial="", vbios="", ecc_uncorrected_aggregate_total=None)), board(0))
    assert told["gpu_identity"].passed
    assert "ecc_baseline" not in told


@pytest.mark.parametrize(
    ("host", "code"),
    [
        pytest.param(replace(HOST, cpu_count=15), "cores_per_gpu", id="cores"),
        pytest.param(replace(HOST, memory_total_bytes=319 * GIB), "memory_for_gpus", id="memory"),
    ],
)
def test_too_few_cores_or_too_little_memory_is_a_warning_and_stands_in_nobodys_way(
    host: HostReading, code: str
) -> None:
    report = Preflight(checks=tuple(judged(seen(one(0), one(1), host=host), board(0), board(1)).values()))
    assert report.passed
    assert [c.code for c in report.warnings] == [code]
    assert report.reason == ""


def test_without_persistence_mode_there_is_a_warning() -> None:
    report = Preflight(checks=tuple(judged(seen(one(0, is_persistent=False)), board(0)).values()))
    assert report.passed
    assert [c.mend for c in report.warnings] == ["start nvidia-persistenced"]


@pytest.mark.parametrize("outcome", list(SmokeOutcome))
def test_smoke_work_passes_or_says_how_to_mend_the_gpu(outcome: SmokeOutcome) -> None:
    check = fitness.smoke_check(uuid(3), Smoked(outcome=outcome, detail="cuInit: 999"))
    assert check.passed is (outcome is SmokeOutcome.PASSED)
    assert bool(check.mend) is not check.passed
    assert "GPU-3" in check.what


@pytest.mark.parametrize(
    ("ended", "passed"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(HookEnded(code=0), True, id="yes"),
        pytest.param(HookEnded(code=1, output="no scratch"), False, id="no"),
        pytest.param(HookEnded(code=None, is_late=True), False, id="late"),
    ],
)
def test_only_its_own_yes_lets_the_pre_join_hook_pass(ended: HookEnded | None, passed: bool | None) -> None:
    assert [c.passed for c in fitness.hook_checks(ended)] == ([] if passed is None else [passed])
