"""May this node join? Every refusal names what to mend."""

from dataclasses import replace

import pytest
from tests.kit.node import HEALTHY, sick

from gpuherd.errors import HeadFault
from gpuherd.health import Verdict
from gpuherd.ray import HeadVersions
from gpuherd_agent.admission import JoinFacts, preflight
from gpuherd_agent.ground import Ground
from gpuherd_agent.readings import HostReading
from gpuherd_agent.refusals import JoinRefusal

RAY = HeadVersions(ray="2.60.0", python="3.11.7")
GOOD = JoinFacts(head="h:1", local=RAY, remote=RAY, declared=8, counted=8, healthy=8, verdict=HEALTHY)


def host(*, free: float) -> HostReading:
    return HostReading(
        memory_total_bytes=1_000,
        memory_available_bytes=int(1_000 * free),
        disk_total_bytes=1,
        disk_free_bytes=1,
        shm_free_bytes=None,
        load_1m=0.0,
        cpu_count=1,
        uptime_s=1.0,
    )


def test_a_fit_node_may_join() -> None:
    assert preflight(GOOD).passed


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        pytest.param({"local": None, "missing": "no ray at /x"}, "ray_missing", "no ray at /x", id="no ray"),
        pytest.param(
            {"remote": None, "unreachable": "refused"}, "head_unreachable", "h:1: refused", id="no head"
        ),
        pytest.param({"remote": replace(RAY, ray="2.54.0")}, "ray_version", "2.54.0", id="other Ray"),
        pytest.param(
            {"remote": replace(RAY, python="3.11.8")}, "python_version", "3.11.8", id="other Python"
        ),
        pytest.param(
            {"remote": None, "unreachable": "no address", "fault": HeadFault.UNRESOLVED},
            "head_unresolved",
            "getent hosts",
            id="no such name",
        ),
        pytest.param(
            {"remote": None, "unreachable": "refused", "fault": HeadFault.REFUSED},
            "head_refused",
            "systemctl start gpuherd-head",
            id="head not started",
        ),
        pytest.param(
            {"remote": None, "unreachable": "silence", "fault": HeadFault.SILENT},
            "head_silent",
            "firewall",
            id="head silent",
        ),
        pytest.param(
            {"remote": None, "unreachable": "odd", "fault": HeadFault.FOREIGN},
            "head_foreign",
            "no head of Ray",
            id="not a head",
        ),
        pytest.param(
            {"remote": None, "fault": HeadFault.TOKEN, "ground": Ground(auth_mode="token")},
            "token_refused",
            "copy the head's token",
            id="other token",
        ),
        pytest.param(
            {"remote": None, "fault": HeadFault.TOKEN}, "auth_mode", "the head wants a token", id="no token"
        ),
        pytest.param(
            {"remote": replace(RAY, is_open=True), "ground": Ground(auth_mode="token")},
            "auth_mode",
            "answers without a token",
            id="open head",
        ),
        pytest.param(
            {"ground": Ground(auth_mode="token", token_path="/t", token_error="is empty")},  # noqa: S106
            "token_unreadable",
            "/t: is empty",
            id="empty token",
        ),
        pytest.param(
            {"ground": Ground(node_ip="10.9.9.9", node_ip_error="Cannot assign")},
            "node_address",
            "ip -brief address",
            id="foreign address",
        ),
        pytest.param(
            {"ground": Ground(temp_dir="/x", temp_dir_error="/ is not writable")},
            "temp_dir",
            "install -d",
            id="folder",
        ),
        pytest.param(
            {"ground": Ground(ports={20_001: "object manager"})},
            "port_taken",
            "sport = :20001",
            id="port",
        ),
        pytest.param(
            {"ground": Ground(disk_total_bytes=100, disk_free_bytes=5)},
            "disk_full",
            "du -xsh",
            id="disk full",
        ),
        pytest.param(
            {"ground": Ground(shm_free_bytes=1, object_store_bytes=2)},
            "shm_small",
            "remount",
            id="shared memory",
        ),
        pytest.param({"host": host(free=0.04)}, "memory_low", "4% of memory is free", id="memory"),
        pytest.param({"counted": 7}, "gpu_count", "8 GPUs declared, 7 counted", id="fewer GPUs"),
        pytest.param({"counted": 9}, "gpu_count", "8 GPUs declared, 9 counted", id="more GPUs"),
        pytest.param({"counted": None}, "gpu_count", "none could be counted", id="not counted yet"),
        pytest.param({"verdict": sick()}, "health", "GPU is lost", id="sick"),
        pytest.param({"verdict": Verdict()}, "health", "not known", id="unknown is not ok"),
    ],
)
def test_what_stands_in_the_way_is_named(change: dict[str, object], code: str, words: str) -> None:
    report = preflight(replace(GOOD, **change))  # type: ignore[arg-type]  # names are checked by replace
    assert [c.code for c in report.refusals] == [code]
    assert words in report.reason


def test_every_refusal_has_a_code_of_the_closed_list_and_a_mend() -> None:
    ground = Ground(
        auth_mode="token",
        token_error="is empty",  # noqa: S106
        node_ip="1.2.3.4",
        node_ip_error="no",
        temp_dir_error="no",
        ports={1: "x"},
        disk_total_bytes=1,
        disk_free_bytes=0,
        shm_free_bytes=0,
        object_store_bytes=1,
    )
    report = preflight(replace(GOOD, local=None, remote=None, counted=3, ground=ground, host=host(free=0.0)))
    assert {c.code for c in report.refusals} <= set(JoinRefusal)
    assert len(report.refusals) == 9, "a head is not asked without the token"
    assert all(c.mend for c in report.refusals)


def test_every_refusal_is_told_at_once() -> None:
    report = preflight(replace(GOOD, local=None, remote=None, counted=3, verdict=sick()))
    assert [c.code for c in report.refusals] == ["ray_missing", "head_unreachable", "gpu_count", "health"]


def test_a_host_without_gpus_needs_no_count() -> None:
    assert preflight(replace(GOOD, declared=0, counted=None)).passed
