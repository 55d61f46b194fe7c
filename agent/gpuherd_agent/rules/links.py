"""What joins a GPU to others and to the host: NVLink, fabric, PCIe. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

NVLINK_DOWN: Final = "nvlink_down"
NVLINK_ERRORS: Final = "nvlink_errors"
FABRIC: Final = "fabric"
PCIE_WIDTH: Final = "pcie_width"
PCIE_SPEED: Final = "pcie_speed"
PCIE_REPLAYS: Final = "pcie_replays"

_REPLAYS_PER_LANE: Final = {3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
"""Replays a minute and lane that DCGM bears, by PCIe generation."""
_BUSY_RATIO: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.links]``."""

    nvlink_errors_per_min: float = 1.0
    """Replay and recovery errors. DCGM fails at one a minute."""
    fabric_grace_s: float = 300.0
    """How long after the boot of the host the fabric may take to be ready."""


def has_links(gpu: GpuReading) -> bool:
    """Say whether the links say how they are; with MIG on they all read as down."""
    return gpu.nvlinks_supported is not None and not gpu.mig_enabled


def has_fabric(gpu: GpuReading) -> bool:
    """Say whether the board is part of a fabric."""
    return gpu.fabric_completed is not None


def has_pcie(gpu: GpuReading) -> bool:
    """Say whether the board tells its PCIe link."""
    return gpu.link_width is not None and gpu.link_width_max is not None


def is_busy(gpu: GpuReading) -> bool:
    """Say whether the PCIe speed means something: it falls at rest, by design."""
    return has_pcie(gpu) and (gpu.utilisation_ratio or 0.0) > _BUSY_RATIO


def judge_nvlink_down(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU some of whose NVLinks are down, while any is up or a peer's are."""
    del limits
    gpus = [gpu for gpu in _gpus(snapshot) if has_links(gpu) and gpu.nvlinks_supported]
    if not any(gpu.nvlinks_up for gpu in gpus):
        return  # a host without bridges or switches has links that never come up
    for gpu in gpus:
        up, every = gpu.nvlinks_up or 0, gpu.nvlinks_supported or 0
        if up < every:
            words = f"{every - up} of {every} NVLinks are down"
            yield _finding(NVLINK_DOWN, gpu, Severity.DEGRADED, Action.CORDON, words)


def judge_nvlink_errors(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose NVLinks recover from errors too often."""
    for gpu in _gpus(snapshot):
        trend = snapshot.trends.get(gpu.gpu)
        rate = trend.nvlink_errors_per_min if trend else None
        if rate is not None and rate >= limits.nvlink_errors_per_min:
            words = f"{rate:.1f} NVLink errors a minute"
            yield _finding(NVLINK_ERRORS, gpu, Severity.DEGRADED, Action.CORDON, words)


def judge_fabric(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that is not part of its fabric, or of which the fabric is not healthy."""
    up_s = snapshot.host.uptime_s if snapshot.host else None
    for gpu in _gpus(snapshot):
        if not has_fabric(gpu):
            continue
        if gpu.fabric_unhealthy:
            words = f"its fabric is not healthy: {', '.join(gpu.fabric_unhealthy)}"
            yield _finding(FABRIC, gpu, Severity.CRITICAL, Action.DRAIN, words, Repair.IMEX)
        elif not gpu.fabric_completed and (up_s is None or up_s > limits.fabric_grace_s):
            words = "it has not joined its fabric: restart the fabric manager"
            yield _finding(FABRIC, gpu, Severity.CRITICAL, Action.DRAIN, words, Repair.IMEX)


def judge_pcie_width(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that is joined to the host by fewer lanes than it could be."""
    del limits
    for gpu in _gpus(snapshot):
        now, most = gpu.link_width, gpu.link_width_max
        if now is not None and most is not None and 0 < now < most:
            words = f"PCIe x{now} instead of x{most}"
            yield _finding(PCIE_WIDTH, gpu, Severity.DEGRADED, Action.CORDON, words)


def judge_pcie_speed(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each busy GPU whose PCIe link is slower than it could be."""
    del limits
    for gpu in _gpus(snapshot):
        now, most = gpu.pcie_generation, gpu.pcie_generation_max
        if is_busy(gpu) and now is not None and most is not None and 0 < now < most:
            words = f"busy at PCIe generation {now} instead of {most}"
            yield _finding(PCIE_SPEED, gpu, Severity.DEGRADED, Action.CORDON, words)


def judge_replays(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose PCIe link repeats itself more than its generation explains."""
    del limits
    for gpu in _gpus(snapshot):
        trend = snapshot.trends.get(gpu.gpu)
        rate = trend.replays_per_min if trend else None
        borne = _REPLAYS_PER_LANE.get(gpu.pcie_generation_max or 0, 0.48) * (gpu.link_width_max or 16)
        if rate is not None and rate > borne:
            words = f"{rate:.0f} PCIe replays a minute, above {borne:.0f}"
            yield _finding(PCIE_REPLAYS, gpu, Severity.WARN, Action.WATCH, words)


def _gpus(snapshot: Snapshot) -> tuple[GpuReading, ...]:
    return snapshot.probe.gpus if snapshot.probe else ()


def _finding(
    rule: str,
    gpu: GpuReading,
    severity: Severity,
    action: Action,
    words: str,
    repair: Repair = Repair.INSPECT,
) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        action=action,
        repair=repair,
        reason=f"GPU {gpu.gpu}: {words}",
        gpu=gpu.gpu,
    )
