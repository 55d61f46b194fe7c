"""Every metric the agent exports: name, type, meaning, labels and how long it may be relied on.

Names are an interface: a STABLE one changes only with a major version. Units are base units, ratios run
from 0 to 1, states are one series each with 0 or 1, and a value that is not known is left out.
"""

from typing import Final

from gpuherd.exposition import counter, gauge

_GPU: Final = "uuid"
"""Only the UUID is stable over reboots; ``gpu_info`` joins index, model and bus id to it."""

METRICS: Final = (
    gauge("build_info", "Version of the agent; always 1.", "version"),
    gauge("node_info", "Cluster and name of this node; always 1.", "cluster", "node"),
    gauge("agent_start_time_seconds", "When this agent started, in seconds of the epoch."),
    counter("ticks_total", "Rounds of the agent's loop."),
    counter("tick_late_total", "Rounds that began late; they are skipped over, never doubled."),
    gauge("sample_age_seconds", "Age of the last complete probe reading."),
    gauge("probe_up", "1 when the last probe of the GPU driver answered in time, else 0."),
    gauge("probe_duration_seconds", "How long the last probe of the GPU driver took."),
    gauge("probe_stuck_children", "Probe processes that cannot be ended since the driver holds them."),
    gauge("sensor_up", "1 when the last look of a sensor beside the driver was good.", "sensor"),
    gauge("sensor_duration_seconds", "How long its last look took, or has been under way.", "sensor"),
    counter("sensor_failures_total", "Looks that failed, were denied, or had no end in time.", "sensor"),
    gauge("broker_connected", "1 while a session with the broker stands."),
    gauge("head_reachable", "1 while Ray's head answers; left out before the first call."),
    counter("messages_dropped_total", "Messages of the broker that were not used, by reason.", "reason"),
    counter("desired_refused_total", "Desired documents that were refused, by reason.", "reason"),
    gauge("node_phase", "1 for the phase this node is in towards Ray, 0 for the others.", "phase"),
    gauge("node_verdict", "1 for the severity of the health verdict, 0 for the others.", "severity"),
    gauge("node_hold", "1 when a hold of this owner and kind stands, else 0.", "owner", "kind"),
    gauge("node_serve", "1 when the node is wanted and no hold stands."),
    gauge("wants_drain", "1 while the node would drain if its pool had a slot left."),
    gauge("drain_slot_held", "1 while this node holds one of its pool's drain slots."),
    gauge(
        "rule_active",
        "1 for each standing finding; uuid is empty when the whole node is meant.",
        "rule",
        _GPU,
    ),
    gauge("gpus_declared", "GPUs that this node is declared to have."),
    gauge("gpus_counted", "GPUs that the driver counts."),
    gauge("gpus_present", "GPUs that answer; left out while the driver does not answer."),
    gauge("gpus_healthy", "GPUs that answer and from which no finding keeps work."),
    gauge("gpu_info", "Facts of a GPU; always 1.", _GPU, "index", "model", "pci_bus_id"),
    gauge("gpu_present", "1 when a GPU seen since the start still answers, 0 when it is lost.", _GPU),
    gauge("gpu_healthy", "1 when a GPU answers and no finding keeps work from it, else 0.", _GPU),
    gauge("gpu_temperature_celsius", "Core temperature.", _GPU),
    gauge("gpu_memory_temperature_celsius", "Memory temperature.", _GPU),
    gauge(
        "gpu_slowdown_temperature_celsius", "Core temperature at which the driver slows the GPU down.", _GPU
    ),
    gauge("gpu_memory_used_bytes", "Memory in use.", _GPU),
    gauge("gpu_memory_total_bytes", "Memory installed.", _GPU),
    counter(
        "gpu_ecc_uncorrected_volatile_total", "Uncorrected ECC errors since the driver was loaded.", _GPU
    ),
    counter("gpu_ecc_corrected_volatile_total", "Corrected ECC errors since the driver was loaded.", _GPU),
    gauge("gpu_utilisation_ratio", "Share of the last sample period in which a kernel ran, 0 to 1.", _GPU),
    gauge("gpu_memory_utilisation_ratio", "Share of the last sample period in which memory was used.", _GPU),
    gauge("gpu_sm_clock_hertz", "Clock of the multiprocessors.", _GPU),
    gauge("gpu_memory_clock_hertz", "Clock of the memory.", _GPU),
    gauge("gpu_power_watts", "Power drawn.", _GPU),
    counter("gpu_energy_joules_total", "Energy used since the driver was loaded.", _GPU),
    counter("gpu_pcie_replays_total", "PCIe packets that were sent again.", _GPU),
    gauge("gpu_pcie_lanes", "PCIe lanes in use.", _GPU),
    gauge("gpu_row_remap_pending", "1 while a row of memory waits for a reset to be remapped.", _GPU),
    gauge("gpu_row_remap_failed", "1 when the spare rows of memory are used up.", _GPU),
    counter("gpu_xids_total", "Xids in the kernel log since the agent's start, by code.", _GPU, "xid"),
    gauge("gpu_xid_last_timestamp_seconds", "When the last Xid came, in seconds of the epoch.", _GPU),
    counter("kernel_lines_missed_total", "Kernel lines that were overwritten, or repeated in one look."),
    gauge(
        "gpu_recovery_action",
        "1 for the recovery that the driver asks for, 0 for the others.",
        _GPU,
        "action",
    ),
    gauge("host_memory_total_bytes", "Memory of the host."),
    gauge("host_memory_available_bytes", "Memory that can be had without swapping."),
    gauge("host_disk_total_bytes", "Size of the watched file system."),
    gauge("host_disk_free_bytes", "Free space of the watched file system."),
    gauge("host_shm_free_bytes", "Free space of /dev/shm, where Ray keeps its objects."),
    gauge("gossip_members", "Members that this node knows by gossip, by its verdict on them.", "verdict"),
    gauge(
        "gossip_gone_as_planned",
        "Those unreachable, failed or without agent that had announced planned work.",
    ),
    gauge("gossip_role", "1 for this node's own standing in the gossip, 0 for the others.", "role"),
    gauge("gossip_expected", "E: members that count in verdicts."),
    gauge("gossip_missing", "Expected members that never spoke."),
    gauge("gossip_sight", "Expected members that this node has reason to believe it reaches."),
    counter("gossip_packets_sent_total", "Datagrams sent."),
    counter("gossip_packets_received_total", "Datagrams and frames received."),
    counter("gossip_sent_bytes_total", "Bytes sent, without the headers of IP, UDP and TCP."),
    counter("gossip_received_bytes_total", "Bytes received, without the headers of IP, UDP and TCP."),
    counter("gossip_signature_checks_total", "Signatures checked; about 0.2 ms of CPU each."),
    counter("gossip_shed_total", "Packets and streams given up since a budget was spent."),
    counter("gossip_dropped_total", "Packets, messages and records that were refused, by reason.", "reason"),
    counter("gossip_cluster_mismatch_total", "Packets of another cluster: an address or a seed is wrong."),
    counter("gossip_name_conflicts_total", "Times that somebody else spoke for a name that is taken."),
    counter("gossip_paths_failed_total", "Times that this node could not reach a member that others reach."),
    gauge("gossip_loop_lag_seconds", "Worst lateness of the gossip's timer in the last 30 to 60 s."),
)
"""In the order of the page. docs/reference/metrics.md is made from it."""
