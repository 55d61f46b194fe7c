"""What sensors saw: plain values, each with its unit in its name.

A reading never judges. ``None`` means that the driver does not offer the value or that this one call
failed (then ``errors`` names the call); it is never zero in disguise.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import GpuUuid
from gpuherd_agent.site_result import SiteReading


class NvmlCode(enum.IntEnum):
    """The NVML return codes that rules know by name. Source: nvml.h, nvmlReturn_t."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    UNKNOWN = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one instant. ``errors`` maps a reading's name to the NVML code that it failed with."""

    gpu: GpuUuid
    index: int
    pci_bus_id: str = ""
    model: str = ""
    serial: str = ""
    vbios: str = ""
    core_celsius: float | None = None
    memory_celsius: float | None = None
    slowdown_celsius: float | None = None
    """Threshold that the driver itself reports, not ours."""
    shutdown_celsius: float | None = None
    memory_max_celsius: float | None = None
    margin_celsius: float | None = None
    """Degrees left before the driver slows the GPU down (T.Limit); negative = beyond it."""
    used_bytes: int | None = None
    total_bytes: int | None = None
    reserved_bytes: int | None = None
    ecc_uncorrected_volatile_total: int | None = None
    """Since the driver was loaded. Source: NVML_VOLATILE_ECC."""
    ecc_uncorrected_aggregate_total: int | None = None
    ecc_corrected_volatile_total: int | None = None
    utilisation_ratio: float | None = None
    power_watts: float | None = None
    recovery_action: int | None = None
    """Field 230: 0 none, 1 reset GPU, 2 reboot, 3 drain peers, 4 drain and reset."""
    memory_utilisation_ratio: float | None = None
    """Share of the last sample period in which memory was read or written."""
    encoder_utilisation_ratio: float | None = None
    decoder_utilisation_ratio: float | None = None
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    energy_joules_total: float | None = None
    """Since the driver was loaded."""
    pcie_replays_total: int | None = None
    is_persistent: bool | None = None
    """Whether the driver keeps the GPU initialised without a client."""
    link_width: int | None = None
    """PCIe lanes in use now."""
    link_width_max: int | None = None
    """PCIe lanes that board and slot can use."""
    rows_remapped_corrected_total: int | None = None
    rows_remapped_uncorrected_total: int | None = None
    is_row_remap_pending: bool | None = None
    """A row will be remapped at the next reset of the GPU."""
    is_row_remap_failed: bool | None = None
    """A row could not be remapped: the spare ones are used up."""
    pids: tuple[int, ...] | None = None
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHandle:
    """An index that the driver counts but gives no handle for, with the NVML code it answered."""

    index: int
    code: int


class ProbeOutcome(enum.StrEnum):
    """How a probe cycle ended; everything but OK leaves ``gpus`` empty."""

    OK = "ok"
    NO_DRIVER = "no_driver"
    DEADLINE = "deadline"
    """The child did not answer in time: the driver hangs, or the host is starved."""
    STARTING = "starting"
    """A fresh child has not answered for the first time yet, within its start-up deadline."""
    CHILD_DIED = "child_died"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReading:
    """One cycle of the GPU probe.

    ``counted`` is the driver's own device count. ``code`` is the NVML code of NO_DRIVER. ``stuck_children``
    counts probe children that could not be ended (state D). ``missed`` counts children in a row that
    missed the deadline. ``is_repeat`` = the last failure told again while no new child was due or done: it
    is no second witness of it.
    """

    outcome: ProbeOutcome
    gpus: tuple[GpuReading, ...] = ()
    lost: tuple[LostHandle, ...] = ()
    counted: int | None = None
    driver: str = ""
    code: int | None = None
    duration_s: float = 0.0
    stuck_children: int = 0
    missed: int = 0
    is_repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The host at one instant."""

    memory_total_bytes: int
    memory_available_bytes: int
    disk_total_bytes: int
    disk_free_bytes: int
    shm_free_bytes: int | None
    load_1m: float
    cpu_count: int
    uptime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All readings of one tick; ``at`` is monotonic seconds. A sensor that failed is None.

    ``known`` are the GPUs that this node has ever seen since its start, and ``ecc_baseline`` the
    uncorrected count of each when first seen: rules judge the rise, not the life-time sum.
    ``total_bytes_baseline`` is the memory of each when first seen, ``pci_bus_ids`` where each was last seen.
    """

    at: float
    declared: int
    probe: ProbeReading | None = None
    host: HostReading | None = None
    known: tuple[GpuUuid, ...] = ()
    ecc_baseline: Mapping[GpuUuid, int] = field(default_factory=dict)
    total_bytes_baseline: Mapping[GpuUuid, int] = field(default_factory=dict)
    pci_bus_ids: Mapping[GpuUuid, str] = field(default_factory=dict)
    checks: tuple[SiteReading, ...] = ()
    """The last word of each of the site's checks."""
