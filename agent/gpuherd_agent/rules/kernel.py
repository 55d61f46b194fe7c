"""What the kernel log says of GPUs: Xid, SXid, off the bus, failed starts, kills, PCIe errors. Pure.

It is read with the driver dead, and it tells what NVML does not. Application errors and unknown codes
never act.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import KernelEvent, KernelKind, Snapshot
from gpuherd_agent.rules import xid_table
from gpuherd_agent.rules.xid_table import Meaning

LOST: Final = "xid_lost"
RESET: Final = "xid_reset"
REBOOT: Final = "xid_reboot"
INSPECT: Final = "xid_inspect"
CONTAINED: Final = "xid_contained"
APPLICATION: Final = "xid_application"
UNKNOWN: Final = "xid_unknown"
SWITCH: Final = "sxid"
INIT: Final = "gpu_init_failed"
OOM: Final = "oom_kill"
PCIE: Final = "pcie_uncorrected"
BLIND: Final = "kernel_log_blind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.kernel]``: there are none, an event is there or it is not."""


def judge_lost(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the log calls fallen off the bus, with or without Xid 79."""
    del limits
    for event in _events(snapshot):
        is_lost = event.kind is KernelKind.BUS_LOST or _means(event, Meaning.LOST)
        if is_lost:
            yield _of(LOST, event, snapshot, Severity.CRITICAL, Action.EVICT, Repair.REBOOT)


def judge_reset(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with an Xid that asks for a reset."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.RESET):
            repair = xid_table.row(event.code).repair
            yield _of(RESET, event, snapshot, Severity.CRITICAL, Action.DRAIN, repair)


def judge_reboot(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with an Xid that only a reboot mends."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.REBOOT):
            yield _of(REBOOT, event, snapshot, Severity.CRITICAL, Action.EVICT, Repair.REBOOT)


def judge_inspect(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with an Xid that a person has to look at."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.INSPECT) or _means(event, Meaning.CONFIRM):
            repair = xid_table.row(event.code).repair
            yield _of(INSPECT, event, snapshot, Severity.DEGRADED, Action.WATCH, repair)


def judge_contained(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with a contained memory error: its job failed, others run on."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.CONTAINED):
            yield _of(CONTAINED, event, snapshot, Severity.WARN, Action.WATCH, Repair.RESET_GPU)


def judge_application(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU on which a job broke its own rules; the node is well."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.APPLICATION):
            yield _of(APPLICATION, event, snapshot, Severity.OK, Action.NONE, Repair.APP)


def judge_unknown(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with an Xid that is in no row: told, never acted upon."""
    del limits
    for event in _events(snapshot):
        if _means(event, Meaning.UNKNOWN):
            yield _of(UNKNOWN, event, snapshot, Severity.WARN, Action.WATCH, Repair.INSPECT)


def judge_switch(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding for the node when an NVSwitch reports an error; only fatal ones weigh."""
    del limits
    for event in _events(snapshot):
        if event.kind is KernelKind.SXID:
            severity, action = (
                (Severity.CRITICAL, Action.DRAIN) if event.is_fatal else (Severity.WARN, Action.WATCH)
            )
            yield Finding(
                rule=SWITCH,
                severity=severity,
                action=action,
                repair=Repair.REBOOT if event.is_fatal else Repair.INSPECT,
                reason=f"SXid {event.code} of the switch at {event.bus}: {event.text[:120]}",
                evidence={"sxid": event.code},
            )


def judge_init(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the driver could not start."""
    del limits
    for event in _events(snapshot):
        if event.kind is KernelKind.INIT_FAILED:
            yield _of(INIT, event, snapshot, Severity.CRITICAL, Action.DRAIN, Repair.RESET_GPU)


def judge_oom(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding when the kernel killed a process for lack of memory."""
    del limits
    killed = [event for event in _events(snapshot) if event.kind is KernelKind.OOM]
    if killed:
        yield Finding(
            rule=OOM,
            severity=Severity.WARN,
            action=Action.WATCH,
            repair=Repair.APP,
            reason=f"the kernel killed {len(killed)} processes for lack of memory: {killed[-1].text[:120]}",
            evidence={"killed": len(killed)},
        )


def judge_pcie(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU with an uncorrected PCIe error."""
    del limits
    for event in _events(snapshot):
        if event.kind is KernelKind.PCIE and _gpu(event, snapshot) is not None:
            yield _of(PCIE, event, snapshot, Severity.DEGRADED, Action.WATCH, Repair.INSPECT)


def judge_blind(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while the kernel log cannot be read: Xids then go unseen."""
    del limits
    if snapshot.kernel is not None and snapshot.kernel.why_blind:
        yield Finding(
            rule=BLIND,
            severity=Severity.OK,
            action=Action.NONE,
            reason=f"the kernel log cannot be read: {snapshot.kernel.why_blind}",
        )


def _events(snapshot: Snapshot) -> tuple[KernelEvent, ...]:
    return snapshot.kernel.events if snapshot.kernel else ()


def _means(event: KernelEvent, meaning: Meaning) -> bool:
    return event.kind is KernelKind.XID and xid_table.row(event.code).meaning is meaning


def _gpu(event: KernelEvent, snapshot: Snapshot) -> GpuUuid | None:
    for gpu, bus in snapshot.pci_bus_ids.items():
        if event.bus and short_bus(bus) == event.bus:
            return gpu
    return None


def short_bus(bus: str) -> str:
    """Return a PCI address as the kernel log has it: four digits of domain, no function, lower case.

    NVML writes ``00000000:18:00.0``, sysfs ``0000:18:00.0``, the log ``PCI:0000:18:00``.
    """
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def _of(
    rule: str, event: KernelEvent, snapshot: Snapshot, severity: Severity, action: Action, repair: Repair
) -> Finding:
    gpu = _gpu(event, snapshot)
    what = f"Xid {event.code}" if event.kind is KernelKind.XID else event.kind.value.replace("_", " ")
    words = xid_table.row(event.code).words if event.kind is KernelKind.XID else event.text[:120]
    where = f"GPU {gpu} ({event.bus})" if gpu else f"the GPU at {event.bus or 'an unknown address'}"
    by = f", process {event.pid}" if event.pid is not None else ""
    return Finding(
        rule=rule,
        severity=severity,
        action=action,
        repair=repair,
        reason=f"{what} on {where}: {words}{by}",
        gpu=gpu,
        evidence={"xid": event.code} if event.kind is KernelKind.XID else {},
    )
