"""Facts of the node as Prometheus text. Pure: a scrape reads what is already known.

Names, types and labels come from ``metrics_catalog``. A value that the driver does not offer is left out.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuherd import exposition
from gpuherd.exposition import Sample, known
from gpuherd.health import Severity, Verdict
from gpuherd.holds import HEALTH, REPAIR, SCALER, UPGRADE, Hold, HoldKind, is_user
from gpuherd.names import ClusterName, NodeName
from gpuherd.phases import Phase
from gpuherd_agent import dcgm_compat, gossip_record
from gpuherd_agent.gossip_record import GossipFacts
from gpuherd_agent.metrics_catalog import METRICS
from gpuherd_agent.readings import GpuReading, HostReading, ProbeOutcome, Snapshot
from gpuherd_agent.sensor_state import SensorOutcome
from gpuherd_agent.state_document import gpus
from gpuherd_agent.xid_tally import Xids

_OWNERS: Final = (HEALTH, REPAIR, SCALER, UPGRADE, "user")
"""People share one label value: their names are not a bounded set."""

#: Field 230. Source: nvml.h, nvmlDeviceGpuRecoveryAction_t.
_RECOVERY_ACTIONS: Final = (
    "none",
    "reset_gpu",
    "reboot",
    "drain_peers",
    "drain_and_reset",
    "recover_imex",
    "bus_reset",
    "reboot_system",
)
_UNKNOWN_ACTION: Final = "other"
"""A code of a newer driver still shows as something that is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the agent knows of its node at one tick; None = not known.

    ``started_at`` is wall-clock seconds. ``snapshot`` is None before the first tick.
    """

    cluster: ClusterName
    node: NodeName
    version: str
    started_at: float
    snapshot: Snapshot | None = None
    verdict: Verdict = field(default_factory=Verdict)
    phase: Phase = Phase.OUTSIDE
    holds: tuple[Hold, ...] = ()
    serve: bool = False
    wants_drain: bool = False
    slot_held: bool = False
    broker_connected: bool = False
    head_reachable: bool | None = None
    ticks_total: int = 0
    tick_late_total: int = 0
    sample_age_s: float | None = None
    messages_dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    desired_refused_by_reason: Mapping[str, int] = field(default_factory=dict)
    xids: tuple[Xids, ...] = ()
    """Xids since the agent's start."""
    kernel_lines_missed: int | None = None
    """Lines of the kernel log that were not told; None = it is not read."""
    dcgm_compat: bool = False
    """Whether the page also has the series of NVIDIA's exporter."""
    gossip: GossipFacts | None = None
    """None = this node takes no part in it."""


class Page:
    """Renders facts at most once, on the first scrape after they changed."""

    def __init__(self) -> None:
        self._facts: NodeFacts | None = None
        self._text = b""

    def read(self, facts: NodeFacts) -> bytes:
        """Return the page of these very facts; the same object costs nothing the second time."""
        if facts is not self._facts:
            self._text, self._facts = render(facts), facts
        return self._text


def render(facts: NodeFacts) -> bytes:
    """Return the page of these facts."""
    if facts.dcgm_compat and facts.snapshot is not None:
        every = itertools.chain(samples(facts), dcgm_compat.samples(facts.snapshot, facts.node))
        return exposition.render((*METRICS, *dcgm_compat.METRICS), every)
    return exposition.render(METRICS, samples(facts))


def samples(facts: NodeFacts) -> Iterator[Sample]:
    """Yield every series these facts have."""
    yield Sample("gpuherd_build_info", 1, (facts.version,))
    yield Sample("gpuherd_node_info", 1, (facts.cluster, facts.node))
    yield Sample("gpuherd_agent_start_time_seconds", facts.started_at)
    yield Sample("gpuherd_ticks_total", facts.ticks_total)
    yield Sample("gpuherd_tick_late_total", facts.tick_late_total)
    yield Sample("gpuherd_broker_connected", facts.broker_connected)
    yield from known("gpuherd_head_reachable", facts.head_reachable)
    yield from known("gpuherd_sample_age_seconds", facts.sample_age_s)
    for reason, count in sorted(facts.messages_dropped_by_reason.items()):
        yield Sample("gpuherd_messages_dropped_total", count, (reason,))
    for reason, count in sorted(facts.desired_refused_by_reason.items()):
        yield Sample("gpuherd_desired_refused_total", count, (reason,))
    yield from known("gpuherd_kernel_lines_missed_total", facts.kernel_lines_missed)
    for xid in facts.xids:
        yield Sample("gpuherd_gpu_xids_total", xid.count, (xid.gpu, str(xid.code)))
    for gpu in dict.fromkeys(xid.gpu for xid in facts.xids):
        last_at = max(xid.last_at for xid in facts.xids if xid.gpu == gpu)
        yield Sample("gpuherd_gpu_xid_last_timestamp_seconds", last_at, (gpu,))
    yield from _standing(facts)
    if facts.snapshot is not None:
        yield from _of_snapshot(facts.snapshot, facts.verdict)
    if facts.gossip is not None:
        yield from gossip_record.samples(facts.gossip)


def _standing(facts: NodeFacts) -> Iterator[Sample]:
    for phase in Phase:
        yield Sample("gpuherd_node_phase", phase is facts.phase, (phase.value,))
    for severity in Severity:
        yield Sample("gpuherd_node_verdict", severity is facts.verdict.severity, (severity.value,))
    standing = {("user" if is_user(hold.owner) else hold.owner, hold.kind) for hold in facts.holds}
    for owner in _OWNERS:
        for kind in HoldKind:
            yield Sample("gpuherd_node_hold", (owner, kind) in standing, (owner, kind.value))
    yield Sample("gpuherd_node_serve", facts.serve)
    yield Sample("gpuherd_wants_drain", facts.wants_drain)
    yield Sample("gpuherd_drain_slot_held", facts.slot_held)
    for rule, gpu in sorted({(finding.rule, finding.gpu or "") for finding in facts.verdict.findings}):
        yield Sample("gpuherd_rule_active", 1, (rule, gpu))


def _of_snapshot(snapshot: Snapshot, verdict: Verdict) -> Iterator[Sample]:
    yield Sample("gpuherd_gpus_declared", snapshot.declared)
    probe = snapshot.probe
    if probe is not None:
        is_up = probe.outcome is ProbeOutcome.OK
        yield Sample("gpuherd_probe_up", is_up)
        yield Sample("gpuherd_probe_duration_seconds", probe.duration_s)
        yield Sample("gpuherd_probe_stuck_children", probe.stuck_children)
        yield from known("gpuherd_gpus_counted", probe.counted)
        listed = gpus(snapshot, verdict)
        if is_up:
            yield Sample("gpuherd_gpus_present", sum(gpu.present for gpu in listed))
        yield Sample("gpuherd_gpus_healthy", sum(gpu.healthy for gpu in listed))
        for gpu in listed:
            yield Sample("gpuherd_gpu_healthy", gpu.healthy, (gpu.uuid,))
            if is_up:
                # A driver that does not answer says nothing of any GPU: neither here nor lost.
                yield Sample("gpuherd_gpu_present", gpu.present, (gpu.uuid,))
        for reading in probe.gpus:
            yield from _of_gpu(reading)
    for state in snapshot.sensors:
        if state.outcome is not SensorOutcome.ABSENT:
            yield Sample("gpuherd_sensor_up", state.outcome is SensorOutcome.OK, (state.name,))
            yield Sample("gpuherd_sensor_duration_seconds", state.took_s, (state.name,))
        yield Sample("gpuherd_sensor_failures_total", state.failures_total, (state.name,))
    if snapshot.host is not None:
        yield from _of_host(snapshot.host)


def _of_gpu(gpu: GpuReading) -> Iterator[Sample]:
    labels = (str(gpu.gpu),)
    yield Sample("gpuherd_gpu_info", 1, (gpu.gpu, str(gpu.index), gpu.model, gpu.pci_bus_id))
    for name, value in (
        ("temperature_celsius", gpu.core_celsius),
        ("memory_temperature_celsius", gpu.memory_celsius),
        ("slowdown_temperature_celsius", gpu.slowdown_celsius),
        ("memory_used_bytes", gpu.used_bytes),
        ("memory_total_bytes", gpu.total_bytes),
        ("ecc_uncorrected_volatile_total", gpu.ecc_uncorrected_volatile_total),
        ("ecc_corrected_volatile_total", gpu.ecc_corrected_volatile_total),
        ("utilisation_ratio", gpu.utilisation_ratio),
        ("memory_utilisation_ratio", gpu.memory_utilisation_ratio),
        ("sm_clock_hertz", gpu.sm_clock_hertz),
        ("memory_clock_hertz", gpu.memory_clock_hertz),
        ("power_watts", gpu.power_watts),
        ("energy_joules_total", gpu.energy_joules_total),
        ("pcie_replays_total", gpu.pcie_replays_total),
        ("pcie_lanes", gpu.link_width),
        ("row_remap_pending", gpu.is_row_remap_pending),
        ("row_remap_failed", gpu.is_row_remap_failed),
    ):
        yield from known(f"gpuherd_gpu_{name}", value, labels)
    if gpu.recovery_action is not None:
        asked = dict(enumerate(_RECOVERY_ACTIONS)).get(gpu.recovery_action, _UNKNOWN_ACTION)
        for action in (*_RECOVERY_ACTIONS, _UNKNOWN_ACTION):
            yield Sample("gpuherd_gpu_recovery_action", action == asked, (gpu.gpu, action))


def _of_host(host: HostReading) -> Iterator[Sample]:
    yield Sample("gpuherd_host_memory_total_bytes", host.memory_total_bytes)
    yield Sample("gpuherd_host_memory_available_bytes", host.memory_available_bytes)
    yield Sample("gpuherd_host_disk_total_bytes", host.disk_total_bytes)
    yield Sample("gpuherd_host_disk_free_bytes", host.disk_free_bytes)
    yield from known("gpuherd_host_shm_free_bytes", host.shm_free_bytes)
