"""The GPUs as each place counts them: PCI, driver, NVML, Ray. Each difference means another thing. Pure.

``gpu_count`` holds the driver's count against the declared one; here are the places that work with the
driver dead, and Ray's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import ProbeOutcome, Snapshot

PCI: Final = "gpus_off_the_bus"
DRIVER: Final = "gpus_without_driver"
DENIED: Final = "gpus_denied"
RAY: Final = "ray_gpu_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.counts]``: there are none, counts are equal or they are not."""


def judge_pci(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when the PCI bus has fewer NVIDIA devices than are declared: they fell off."""
    del limits
    seen = snapshot.devices.pci if snapshot.devices else None
    if seen and len(seen) < snapshot.declared:  # an empty bus is one that cannot be seen from here
        yield Finding(
            rule=PCI,
            severity=Severity.CRITICAL,
            action=Action.DRAIN,
            repair=Repair.REBOOT,
            reason=f"{len(seen)} GPUs on the PCI bus, {snapshot.declared} declared: reboot, then inspect",
            evidence={"pci": len(seen), "declared": snapshot.declared},
        )


def judge_driver(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when the driver has taken fewer GPUs than the bus has: their start failed."""
    del limits
    devices = snapshot.devices
    if devices is None or devices.pci is None or devices.driver is None or not snapshot.declared:
        return
    missing = sorted(set(devices.pci) - set(devices.driver))
    if missing and devices.driver:
        yield Finding(
            rule=DRIVER,
            severity=Severity.CRITICAL,
            action=Action.DRAIN,
            repair=Repair.REBOOT,
            reason=f"on the bus and not taken by the driver: {', '.join(missing)}; its start failed",
            evidence={"pci": len(devices.pci), "driver": len(devices.driver)},
        )


def judge_denied(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when NVML sees no GPU and the driver has them all: this service may not open them."""
    del limits
    if is_denied(snapshot):
        yield Finding(
            rule=DENIED,
            severity=Severity.UNKNOWN,
            action=Action.WATCH,
            repair=Repair.APP,
            reason=(
                f"NVML sees no GPU and the driver has all {snapshot.declared}: this service may not open "
                "/dev/nvidia*. See DeviceAllow of its unit (char-nvidia, char-nvidia-frontend), or the "
                "devices of its container; no board is gone"
            ),
        )


def judge_ray(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when Ray gives out more GPUs than answer: tasks there die."""
    del limits
    probe, ray = snapshot.probe, snapshot.ray_gpus
    if ray is None or probe is None or probe.outcome is not ProbeOutcome.OK:
        return
    answering = len(probe.gpus) + len(probe.hung)  # of those that hang their own rule tells
    if ray > answering:
        yield Finding(
            rule=RAY,
            severity=Severity.CRITICAL,
            action=Action.EVICT,
            repair=Repair.NONE,
            reason=f"Ray gives out {ray} GPUs and {answering} answer",
            evidence={"ray": ray, "answering": answering},
        )


def is_denied(snapshot: Snapshot) -> bool:
    """Say whether what NVML does not see is there: a device cgroup looks like a bus drop."""
    probe, devices = snapshot.probe, snapshot.devices
    if probe is None or probe.outcome is not ProbeOutcome.OK or devices is None or not snapshot.declared:
        return False
    return probe.counted == 0 and devices.driver is not None and len(devices.driver) >= snapshot.declared
