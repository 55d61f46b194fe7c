"""Every metric the agent exports: name, type, meaning, labels and how long it may be relied on.

Names are an interface: a STABLE one changes only with a major version. Units are base units, ratios run
from 0 to 1, states are one series each with 0 or 1, and a value that is not known is left out.
"""

import enum
from dataclasses import dataclass
from typing import Final


class Kind(enum.StrEnum):
    """Type in the text format."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Stability(enum.StrEnum):
    """What a dashboard may rely on."""

    STABLE = "stable"
    ALPHA = "alpha"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family. Labels are of bounded sets only: uuid, and words of this code base."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    stability: Stability = Stability.STABLE


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"gpuherd_{name}", kind=Kind.GAUGE, help=text, labels=labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"gpuherd_{name}", kind=Kind.COUNTER, help=text, labels=labels)


_GPU: Final = "uuid"
"""Only the UUID is stable over reboots; ``gpu_info`` joins index, model and bus id to it."""

METRICS: Final = (
    _gauge("build_info", "Version of the agent; always 1.", "version"),
    _gauge("node_info", "Cluster and name of this node; always 1.", "cluster", "node"),
    _gauge("agent_start_time_seconds", "When this agent started, in seconds of the epoch."),
    _counter("ticks_total", "Rounds of the agent's loop."),
    _counter("tick_late_total", "Rounds that began late; they are skipped over, never doubled."),
    _gauge("sample_age_seconds", "Age of the last complete probe reading."),
    _gauge("probe_up", "1 when the last probe of the GPU driver answered in time, else 0."),
    _gauge("probe_duration_seconds", "How long the last probe of the GPU driver took."),
    _gauge("probe_stuck_children", "Probe processes that cannot be ended since the driver holds them."),
    _gauge("broker_connected", "1 while a session with the broker stands."),
    _gauge("head_reachable", "1 while Ray's head answers; left out before the first call."),
    _counter("messages_dropped_total", "Messages of the broker that were not used, by reason.", "reason"),
    _counter("desired_refused_total", "Desired documents that were refused, by reason.", "reason"),
    _gauge("node_phase", "1 for the phase this node is in towards Ray, 0 for the others.", "phase"),
    _gauge("node_verdict", "1 for the severity of the health verdict, 0 for the others.", "severity"),
    _gauge("node_hold", "1 when a hold of this owner and kind stands, else 0.", "owner", "kind"),
    _gauge("node_serve", "1 when the node is wanted and no hold stands."),
    _gauge("wants_drain", "1 while the node would drain if its pool had a slot left."),
    _gauge("drain_slot_held", "1 while this node holds one of its pool's drain slots."),
    _gauge(
        "rule_active",
        "1 for each standing finding; uuid is empty when the whole node is meant.",
        "rule",
        _GPU,
    ),
    _gauge("gpus_declared", "GPUs that this node is declared to have."),
    _gauge("gpus_counted", "GPUs that the driver counts."),
    _gauge("gpu_info", "Facts of a GPU; always 1.", _GPU, "index", "model", "pci_bus_id"),
    _gauge("gpu_present", "1 when a GPU seen since the start still answers, 0 when it is lost.", _GPU),
    _gauge("gpu_healthy", "1 when a GPU answers and no finding keeps work from it, else 0.", _GPU),
    _gauge("gpu_temperature_celsius", "Core temperature.", _GPU),
    _gauge("gpu_memory_temperature_celsius", "Memory temperature.", _GPU),
    _gauge(
        "gpu_slowdown_temperature_celsius", "Core temperature at which the driver slows the GPU down.", _GPU
    ),
    _gauge("gpu_memory_used_bytes", "Memory in use.", _GPU),
    _gauge("gpu_memory_total_bytes", "Memory installed.", _GPU),
    _counter(
        "gpu_ecc_uncorrected_volatile_total", "Uncorrected ECC errors since the driver was loaded.", _GPU
    ),
    _counter("gpu_ecc_corrected_volatile_total", "Corrected ECC errors since the driver was loaded.", _GPU),
    _gauge("gpu_utilisation_ratio", "Share of the last sample period in which a kernel ran, 0 to 1.", _GPU),
    _gauge("gpu_power_watts", "Power drawn.", _GPU),
    _gauge(
        "gpu_recovery_action",
        "1 for the recovery that the driver asks for, 0 for the others.",
        _GPU,
        "action",
    ),
    _gauge("host_memory_total_bytes", "Memory of the host."),
    _gauge("host_memory_available_bytes", "Memory that can be had without swapping."),
    _gauge("host_disk_total_bytes", "Size of the watched file system."),
    _gauge("host_disk_free_bytes", "Free space of the watched file system."),
    _gauge("host_shm_free_bytes", "Free space of /dev/shm, where Ray keeps its objects."),
)
"""In the order of the page. docs/reference/metrics.md is made from it."""
