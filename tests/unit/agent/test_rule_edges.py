"""Each limit of each rule, held from both sides: moved by one step either way, a row here would fail."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from tests.kit.readings import GIB, cycle, gpu, look, uuid

from gpuherd_agent.readings import (
    HostReading,
    HungGpu,
    ProbeOutcome,
    ProbeReading,
    SlowLooks,
    Snapshot,
    Trend,
)
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule
from gpuherd_agent.surroundings import PortReading, PortsReading, PortWatch

BY_NAME = {rule.name: rule for rule in RULES}
HOST = HostReading(
    memory_total_bytes=64 * GIB,
    memory_available_bytes=32 * GIB,
    disk_total_bytes=10_000,
    disk_free_bytes=9_000,
    shm_free_bytes=None,
    load_1m=1.0,
    cpu_count=64,
    uptime_s=1e6,
)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A limit, a snapshot made from one value, and the two values between which the limit lies."""

    rule: str
    limit: str
    of: Callable[[Any], Snapshot]
    quiet: float
    loud: float
    step: float
    is_worse: bool = False
    """Both values raise a finding; the loud one is worse."""


def trend(**values: float) -> Snapshot:
    return replace(look(cycle(gpu())), trends={uuid(0): Trend(**values)})


def reading(**values: Any) -> Snapshot:  # noqa: ANN401  any field of a reading
    return look(cycle(gpu(**values)))


def seen_before(**values: Any) -> Snapshot:  # noqa: ANN401  any field of a reading
    """Return a look at a GPU that had 80 GiB and no errors when it was first seen."""
    return replace(reading(**values), ecc_baseline={uuid(0): 0}, total_bytes_baseline={uuid(0): 80 * GIB})


def hung(missed: float) -> Snapshot:
    probe = ProbeReading(outcome=ProbeOutcome.DEADLINE, missed=int(missed))
    return look(probe, declared=1)


def one_hung(missed: float) -> Snapshot:
    aside = HungGpu(index=1, gpu=uuid(1), call="nvmlDeviceGetUUID", missed=int(missed))
    return look(replace(cycle(gpu()), hung=(aside,), counted=2))


def host(**values: float) -> Snapshot:
    changed: dict[str, Any] = values
    return replace(look(cycle(gpu())), host=replace(HOST, **changed))


def falling(downs: float) -> Snapshot:
    """Return a look at one port whose link went down so often within ten minutes."""
    port = PortReading(name="mlx5_0/1", is_active=True)
    watch = PortWatch(port=port, is_wanted=True, recent_downs=int(downs))
    return replace(look(cycle(gpu())), ports=PortsReading(at=0.0, ports=(watch,)))


EDGES = (
    Edge(rule="port_flaps", limit="downs", of=falling, quiet=2, loud=3, step=1),
    Edge(
        rule="host_io_stalled",
        limit="io_stall_ratio",
        of=lambda share: host(io_stall_ratio=share),
        quiet=0.495,
        loud=0.5,
        step=0.01,
    ),
    Edge(
        rule="host_cpu_stalled",
        limit="cpu_stall_ratio",
        of=lambda share: host(cpu_stall_ratio=share),
        quiet=0.895,
        loud=0.9,
        step=0.01,
    ),
    Edge(rule="driver_hung", limit="misses", of=hung, quiet=1, loud=2, step=1, is_worse=True),
    Edge(rule="gpu_hung", limit="misses", of=one_hung, quiet=1, loud=2, step=1, is_worse=True),
    Edge(
        rule="driver_slow",
        limit="slow_ratio",
        of=lambda slow: replace(look(cycle(gpu())), slow_looks=SlowLooks(looks=100, slow=slow)),
        quiet=20,
        loud=21,
        step=0.01,
    ),
    Edge(
        rule="ecc_uncorrected",
        limit="rise_max",
        of=lambda n: seen_before(ecc_uncorrected_volatile_total=n),
        quiet=0,
        loud=1,
        step=1,
    ),
    Edge(
        rule="ecc_corrected_rate",
        limit="watch_per_s",
        of=lambda rate: trend(corrected_per_s=rate),
        quiet=100.0,
        loud=100.5,
        step=1,
    ),
    Edge(
        rule="ecc_corrected_rate",
        limit="degraded_per_s",
        of=lambda rate: trend(corrected_per_s=rate),
        quiet=1_000.0,
        loud=1_000.5,
        step=1,
        is_worse=True,
    ),
    Edge(
        rule="remap_volume",
        limit="uncorrectable_max",
        of=lambda n: reading(is_row_remap_pending=False, ecc_enabled=True, rows_remapped_uncorrected_total=n),
        quiet=511,
        loud=512,
        step=1,
    ),
    Edge(
        rule="retired_pages",
        limit="retired_max",
        of=lambda n: reading(retired_pages_total=n),
        quiet=62,
        loud=63,
        step=1,
    ),
    Edge(
        rule="memory_leaked",
        limit="leaked_bytes",
        of=lambda n: reading(used_bytes=n, pids=()),
        quiet=GIB,
        loud=GIB + 1,
        step=1,
    ),
    Edge(
        rule="memory_shrunk",
        limit="shrunk_ratio",
        of=lambda share: seen_before(total_bytes=int(80 * GIB * share)),
        quiet=0.9901,
        loud=0.9899,
        step=0.001,
    ),
    Edge(
        rule="memory_full",
        limit="full_ratio",
        of=lambda share: reading(used_bytes=int(80 * GIB * share)),
        quiet=0.979,
        loud=0.981,
        step=0.01,
    ),
    Edge(
        rule="temperature_core",
        limit="watch_margin_celsius",
        of=lambda c: reading(core_celsius=c),
        quiet=83.5,
        loud=84.0,
        step=1,
    ),
    Edge(
        rule="temperature_core",
        limit="shutdown_margin_celsius",
        of=lambda c: reading(core_celsius=c),
        quiet=91.5,
        loud=92.0,
        step=1,
        is_worse=True,
    ),
    Edge(
        rule="throttle_hardware",
        limit="hardware_ratio",
        of=lambda share: trend(hw_slowdown_ratio=share),
        quiet=0.1,
        loud=0.105,
        step=0.01,
    ),
    Edge(
        rule="throttle_power_brake",
        limit="power_brake_ratio",
        of=lambda share: trend(power_brake_ratio=share),
        quiet=0.595,
        loud=0.6,
        step=0.01,
    ),
    Edge(
        rule="throttle_software",
        limit="software_ratio",
        of=lambda share: trend(sw_thermal_ratio=share),
        quiet=0.5,
        loud=0.505,
        step=0.01,
    ),
    Edge(
        rule="throttle_without_reason",
        limit="slow_ratio",
        of=lambda share: trend(slow_clock_ratio=share),
        quiet=0.895,
        loud=0.9,
        step=0.01,
    ),
    Edge(
        rule="nvlink_errors",
        limit="nvlink_errors_per_min",
        of=lambda rate: trend(nvlink_errors_per_min=rate),
        quiet=0.95,
        loud=1.0,
        step=0.1,
    ),
    Edge(
        rule="fabric",
        limit="fabric_grace_s",
        of=lambda up_s: replace(reading(fabric_completed=False), host=replace(HOST, uptime_s=float(up_s))),
        quiet=300.0,
        loud=300.5,
        step=1,
    ),
    Edge(
        rule="power_above_limit",
        limit="power_above_ratio",
        of=lambda share: reading(power_watts=700.0 * share, power_limit_watts=700.0),
        quiet=1.095,
        loud=1.105,
        step=0.01,
    ),
    Edge(
        rule="host_memory_stalled",
        limit="memory_stall_ratio",
        of=lambda share: host(memory_stall_ratio=share),
        quiet=0.295,
        loud=0.3,
        step=0.01,
    ),
    Edge(
        rule="host_disk_full",
        limit="disk_free_ratio",
        of=lambda share: host(disk_total_bytes=10_000, disk_free_bytes=int(10_000 * share)),
        quiet=0.05,
        loud=0.0499,
        step=0.001,
    ),
)


def judged(rule: Rule, limits: object, snapshot: Snapshot) -> tuple[int, ...]:
    """Return how bad each finding is."""
    return tuple(finding.severity.rank for finding in rule.judge(snapshot, limits))


def differs(edge: Edge, limits: Any) -> bool:  # noqa: ANN401  each rule has its own Limits
    """Say whether the loud value is told and the quiet one is not, or is told as less bad."""
    rule = BY_NAME[edge.rule]
    quiet, loud = (judged(rule, limits, edge.of(value)) for value in (edge.quiet, edge.loud))
    if edge.is_worse:
        return bool(quiet and loud) and max(loud) > max(quiet)
    return bool(loud) and not quiet


@pytest.mark.parametrize("edge", EDGES, ids=lambda e: f"{e.rule}.{e.limit}")
def test_a_rule_speaks_on_one_side_of_its_limit_only(edge: Edge) -> None:
    assert differs(edge, BY_NAME[edge.rule].limits)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("edge", EDGES, ids=lambda e: f"{e.rule}.{e.limit}")
def test_a_limit_moved_by_one_step_is_noticed(edge: Edge, sign: int) -> None:
    limits = BY_NAME[edge.rule].limits
    moved = replace(limits, **{edge.limit: getattr(limits, edge.limit) + sign * edge.step})
    assert not differs(edge, moved)


def test_every_limit_has_its_edge() -> None:
    limits = {(type(rule.limits), field.name) for rule in RULES for field in fields(rule.limits)}
    held = {(type(BY_NAME[edge.rule].limits), edge.limit) for edge in EDGES}
    assert limits - held == set()
