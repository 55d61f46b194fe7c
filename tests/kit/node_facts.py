"""Facts of a node for tests of the metrics page."""

from dataclasses import replace

from gpuherd.gossip.counters import Counters
from gpuherd.gossip.verdicts import Role
from gpuherd.gossip.views import FleetView
from gpuherd.health import Action, Finding, Severity, fold
from gpuherd.holds import HEALTH, Hold, HoldKind
from gpuherd.names import ClusterName, GpuUuid, HoldId, NodeName
from gpuherd.phases import Phase
from gpuherd_agent.exporter import NodeFacts
from gpuherd_agent.gossip_record import GossipFacts
from gpuherd_agent.readings import GpuReading, HostReading, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.sensor_state import SensorOutcome, SensorState
from gpuherd_agent.xid_tally import Xids

LOST = GpuUuid("GPU-0000-lost")


def gpu_reading(index: int) -> GpuReading:
    """A well GPU that offers everything."""
    return GpuReading(
        gpu=GpuUuid(f"GPU-0000-{index}"),
        index=index,
        pci_bus_id=f"00000000:{index:02X}:00.0",
        model="NVIDIA H100 80GB HBM3",
        core_celsius=41.0 + index,
        memory_celsius=50.5,
        slowdown_celsius=87.0,
        used_bytes=1024**3,
        total_bytes=80 * 1024**3,
        ecc_uncorrected_volatile_total=0,
        ecc_corrected_volatile_total=3,
        utilisation_ratio=0.25,
        power_watts=120.5,
        memory_utilisation_ratio=0.125,
        encoder_utilisation_ratio=0.0,
        decoder_utilisation_ratio=0.0,
        sm_clock_hertz=1_980e6,
        memory_clock_hertz=2_619e6,
        energy_joules_total=3_600.5,
        pcie_replays_total=2,
        link_width=16,
        link_width_max=16,
        rows_remapped_corrected_total=0,
        rows_remapped_uncorrected_total=0,
        is_row_remap_pending=False,
        is_row_remap_failed=False,
        recovery_action=0,
    )


def sick_node() -> NodeFacts:
    """Two GPUs of three answer, one of them offers little; holds of health and of a person stand."""
    bare = GpuReading(gpu=GpuUuid("GPU-0000-1"), index=1, model='odd "model" \\ of\nmine')
    first = gpu_reading(0)
    lost = Finding(
        rule="dropout", severity=Severity.CRITICAL, action=Action.DRAIN, reason="GPU is lost", gpu=LOST
    )
    full = Finding(rule="disk", severity=Severity.WARN, action=Action.WATCH, reason="disk nearly full")
    probe = ProbeReading(outcome=ProbeOutcome.OK, gpus=(first, bare), counted=2, duration_s=0.125)
    host = HostReading(
        memory_total_bytes=256 * 1024**3,
        memory_available_bytes=200 * 1024**3,
        disk_total_bytes=10**12,
        disk_free_bytes=4 * 10**10,
        shm_free_bytes=None,
        load_1m=1.5,
        cpu_count=64,
        uptime_s=1e6,
    )
    return NodeFacts(
        cluster=ClusterName("lab"),
        node=NodeName("gpu-1"),
        version="0.1.0",
        started_at=1_700_000_000.25,
        snapshot=Snapshot(
            at=12.0,
            declared=3,
            probe=probe,
            host=host,
            known=(first.gpu, bare.gpu, LOST),
            sensors=(
                SensorState(name="host", outcome=SensorOutcome.OK, took_s=0.002),
                SensorState(name="mounts", outcome=SensorOutcome.LATE, took_s=12.0, failures_total=1),
                SensorState(name="ports", outcome=SensorOutcome.ABSENT),
            ),
        ),
        verdict=fold([full, lost]),
        xids=(Xids(first.gpu, 31, 2, 1_700_000_100.0), Xids(first.gpu, 79, 1, 1_700_000_200.0)),
        kernel_lines_missed=3,
        phase=Phase.DRAINING,
        holds=(
            Hold(id=HoldId("h1"), owner=HEALTH, kind=HoldKind.DRAIN, reason="GPU is lost", since=1.0),
            Hold(id=HoldId("h2"), owner="user:ann", kind=HoldKind.CORDON, reason="work", since=2.0),
        ),
        slot_held=True,
        broker_connected=True,
        head_reachable=True,
        ticks_total=120,
        tick_late_total=1,
        sample_age_s=0.5,
        messages_dropped_by_reason={"oversize": 2},
        desired_refused_by_reason={"older": 1},
    )


def hung_node() -> NodeFacts:
    """The same node a moment later: the driver does not answer any more."""
    facts = sick_node()
    if facts.snapshot is None:
        raise AssertionError
    probe = ProbeReading(outcome=ProbeOutcome.DEADLINE, duration_s=5.0, stuck_children=1)
    return replace(facts, snapshot=replace(facts.snapshot, probe=probe))


def gossip_facts() -> GossipFacts:
    """Return a node alone in a cluster of five, that has refused a packet."""
    view = FleetView(
        own=NodeName("gpu-1"),
        epoch=1,
        role=Role.ISOLATED,
        expected=5,
        quorum=3,
        sight=1,
        is_hint=False,
        health=0,
        members=(),
        missing=(NodeName("gpu-2"),),
    )
    counters = Counters(packets_out=3, dropped={"cluster": 1})
    return GossipFacts(
        view=view,
        counters=counters,
        lag_s=0.01,
        mismatches=1,
        conflicts=0,
        paths_failed=0,
        streams_shed=0,
    )
