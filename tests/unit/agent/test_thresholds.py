"""Each limit at its edge: raised as shipped, silent once the limit is moved by one step."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from tests.kit.readings import GIB, cycle, gpu, look, uuid

from gpuherd_agent.readings import HostReading, ProbeOutcome, SlowLooks, Snapshot, Trend
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule


def of(**changed: Any) -> Snapshot:  # noqa: ANN401  fields of a reading
    return look(cycle(gpu(0, **changed)))


def trend(**changed: Any) -> Snapshot:  # noqa: ANN401
    return replace(
        of(utilisation_ratio=1.0, link_width_max=16, pcie_generation_max=5),
        trends={uuid(0): Trend(**changed)},
    )


def host(**changed: Any) -> Snapshot:  # noqa: ANN401
    plain = HostReading(
        memory_total_bytes=100,
        memory_available_bytes=50,
        disk_total_bytes=1_000,
        disk_free_bytes=900,
        shm_free_bytes=1,
        load_1m=0.0,
        cpu_count=1,
        uptime_s=9_999.0,
    )
    return replace(of(), host=replace(plain, **changed))


def hung(missed: int) -> Snapshot:
    probe = replace(cycle(), outcome=ProbeOutcome.DEADLINE, missed=missed, counted=None)
    return replace(look(probe), declared=1)


def shrunk() -> Snapshot:
    return replace(of(total_bytes=989), total_bytes_baseline={uuid(0): 1_000})


def fabric() -> Snapshot:
    return replace(host(uptime_s=301.0), probe=cycle(gpu(0, fabric_completed=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A snapshot that the shipped limit just raises for, and the limit one step further."""

    rule: str
    limit: str
    at: Snapshot
    moved: float


EDGES = (
    Edge(rule="driver_hung", limit="misses", at=hung(2), moved=3),
    Edge(
        rule="ecc_uncorrected",
        limit="rise_max",
        at=replace(of(ecc_uncorrected_volatile_total=1), ecc_baseline={uuid(0): 0}),
        moved=1,
    ),
    Edge(rule="ecc_corrected_rate", limit="watch_per_s", at=trend(corrected_per_s=101.0), moved=102.0),
    Edge(rule="ecc_corrected_rate", limit="degraded_per_s", at=trend(corrected_per_s=1_001.0), moved=1_002.0),
    Edge(
        rule="remap_volume",
        limit="uncorrectable_max",
        at=of(ecc_enabled=True, is_row_remap_pending=False, rows_remapped_uncorrected_total=512),
        moved=513,
    ),
    Edge(rule="retired_pages", limit="retired_max", at=of(retired_pages_total=63), moved=64),
    Edge(rule="memory_leaked", limit="leaked_bytes", at=of(used_bytes=GIB + 1), moved=GIB + 1),
    Edge(rule="memory_shrunk", limit="shrunk_ratio", at=shrunk(), moved=0.989),
    Edge(rule="memory_full", limit="full_ratio", at=of(used_bytes=981, total_bytes=1_000), moved=0.99),
    Edge(rule="temperature_core", limit="watch_margin_celsius", at=of(core_celsius=84.0), moved=4.0),
    Edge(rule="temperature_core", limit="shutdown_margin_celsius", at=of(core_celsius=92.0), moved=2.0),
    Edge(rule="throttle_hardware", limit="hardware_ratio", at=trend(hw_slowdown_ratio=0.11), moved=0.12),
    Edge(rule="throttle_power_brake", limit="power_brake_ratio", at=trend(power_brake_ratio=0.6), moved=0.61),
    Edge(rule="throttle_software", limit="software_ratio", at=trend(sw_thermal_ratio=0.51), moved=0.52),
    Edge(rule="throttle_without_reason", limit="slow_ratio", at=trend(slow_clock_ratio=0.9), moved=0.91),
    Edge(rule="nvlink_errors", limit="nvlink_errors_per_min", at=trend(nvlink_errors_per_min=1.0), moved=1.1),
    Edge(rule="fabric", limit="fabric_grace_s", at=fabric(), moved=302.0),
    Edge(
        rule="power_above_limit",
        limit="power_above_ratio",
        at=of(power_watts=771.0, power_limit_watts=700.0),
        moved=1.11,
    ),
    Edge(
        rule="driver_slow",
        limit="slow_ratio",
        at=replace(of(), slow_looks=SlowLooks(looks=100, slow=21)),
        moved=0.22,
    ),
    Edge(rule="host_memory_stalled", limit="memory_stall_ratio", at=host(memory_stall_ratio=0.3), moved=0.31),
    Edge(rule="host_disk_full", limit="disk_free_ratio", at=host(disk_free_bytes=49), moved=0.049),
)


def rules_with_limits() -> Iterator[tuple[Rule, str]]:
    """Yield each limit once, with a rule that it belongs to."""
    seen = set()
    for rule in RULES:
        for each in fields(rule.limits):
            if (type(rule.limits), each.name) not in seen:
                seen.add((type(rule.limits), each.name))
                yield rule, each.name


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.rule}.{edge.limit}")
def test_a_limit_moved_by_one_step_changes_the_finding(edge: Edge) -> None:
    rule = next(rule for rule in RULES if rule.name == edge.rule)
    shipped = list(rule.judge(edge.at, rule.limits))
    moved = list(rule.judge(edge.at, replace(rule.limits, **{edge.limit: edge.moved})))
    assert shipped, "the shipped limit raises at its edge"
    weights = [[(f.severity, f.action) for f in found] for found in (moved, shipped)]
    assert weights[0] < weights[1] or not moved


def test_every_limit_has_an_edge() -> None:
    classes = {edge.rule: type(rule.limits) for edge in EDGES for rule in RULES if rule.name == edge.rule}
    covered = {(classes[edge.rule], edge.limit) for edge in EDGES}
    assert {(type(rule.limits), name) for rule, name in rules_with_limits()} == covered
