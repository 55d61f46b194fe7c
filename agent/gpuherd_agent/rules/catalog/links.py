"""NVLink, fabric and PCIe: rules, written out."""

from typing import Final

from gpuherd_agent.rules import kernel, links
from gpuherd_agent.rules.rule import Rule, Scope, Sensor

_LOOKS_OF_A_MINUTE: Final = 60

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        name=links.NVLINK_DOWN,
        covers=("N1",),
        limits=links.Limits(),
        judge=links.judge_nvlink_down,
        is_read=links.has_links,
        raise_n=3,
        raise_m=5,
        runbook="links.md",
        source="nvmlDeviceGetNvLinkState; with MIG all links read as down (DCGM)",
    ),
    Rule(
        name=links.NVLINK_ERRORS,
        covers=("N2",),
        limits=links.Limits(),
        judge=links.judge_nvlink_errors,
        is_read=links.has_links,
        raise_n=2,
        raise_m=3,
        clear_hold_s=600.0,
        runbook="links.md",
        source="DCGM: one NVLink replay or recovery error a minute fails",
    ),
    Rule(
        name=links.FABRIC,
        covers=("N3",),
        scope=Scope.FABRIC,
        limits=links.Limits(),
        judge=links.judge_fabric,
        is_read=links.has_fabric,
        raise_n=2,
        raise_m=2,
        runbook="links.md",
        source="nvmlDeviceGetGpuFabricInfoV",
    ),
    Rule(
        name=links.PCIE_WIDTH,
        covers=("N4",),
        limits=links.Limits(),
        judge=links.judge_pcie_width,
        is_read=links.has_pcie,
        raise_n=_LOOKS_OF_A_MINUTE,
        raise_m=_LOOKS_OF_A_MINUTE,
        runbook="links.md",
        source="nvmlDeviceGetCurrPcieLinkWidth against the maximum of the board",
    ),
    Rule(
        name=links.PCIE_SPEED,
        covers=("N4",),
        limits=links.Limits(),
        judge=links.judge_pcie_speed,
        is_read=links.is_busy,
        raise_n=_LOOKS_OF_A_MINUTE,
        raise_m=_LOOKS_OF_A_MINUTE,
        runbook="links.md",
        source="nvmlDeviceGetCurrPcieLinkGeneration; it falls at rest, by design",
    ),
    Rule(
        name=links.PCIE_REPLAYS,
        covers=("N5",),
        limits=links.Limits(),
        judge=links.judge_replays,
        is_read=links.has_pcie,
        raise_n=2,
        raise_m=3,
        clear_hold_s=600.0,
        runbook="links.md",
        source="DCGM: replays a minute and lane by generation",
    ),
    Rule(
        name=kernel.PCIE,
        covers=("N5",),
        sensor=Sensor.KERNEL,
        limits=kernel.Limits(),
        judge=kernel.judge_pcie,
        clear_k=1,
        clear_hold_s=3_600.0,
        runbook="links.md",
        source="Linux PCIe AER: severity=Uncorrected",
    ),
)
