"""What sensors saw: plain values, each with its unit in its name.

A reading never judges. ``None`` means that the driver does not offer the value or that this one call
failed (then ``errors`` names the call); it is never zero in disguise.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import GpuUuid
from gpuherd_agent.sensor_state import SensorState
from gpuherd_agent.site_result import SiteReading
from gpuherd_agent.surroundings import MountsReading, PortsReading


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
    """Field 230: 0 none, 1 reset GPU, 2 reboot, 3 drain peers, 4 drain and reset, 5 recover the IMEX domain,
    6 bus reset, 7 reboot the system (the last three from driver 580 on)."""
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
    ghost_pids: tuple[int, ...] = ()
    """Those of ``pids`` that are no process of this host any more."""
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None
    """The ECC mode that the next reset brings."""
    sram_uncorrected_total: int | None = None
    sram_threshold_exceeded: bool | None = None
    banks_without_spares: int | None = None
    retired_pages_total: int | None = None
    retired_pending: bool | None = None
    unrepairable: bool | None = None
    hw_slowdown: bool | None = None
    """Clock event reasons HW slowdown 0x8 or HW thermal 0x40."""
    power_brake: bool | None = None
    """Clock event reason 0x80: the supply asked for less."""
    sw_thermal: bool | None = None
    """Clock event reason 0x20."""
    sm_clock_max_hertz: float | None = None
    power_limit_watts: float | None = None
    fan_ratio: float | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    nvlinks_up: int | None = None
    nvlinks_supported: int | None = None
    nvlink_errors_total: int | None = None
    """Replay and recovery errors of all links."""
    fabric_completed: bool | None = None
    """None also where the board has no fabric."""
    fabric_unhealthy: tuple[str, ...] = ()
    """Names of the bad bits of the fabric's health mask."""
    mig_enabled: bool | None = None
    mig_pending: bool | None = None
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
class HungGpu:
    """A GPU whose calls do not come back; it is left out of the cycle so that it blinds no other.

    ``gpu`` None = it has not been seen yet, only its index is known. ``call`` is the one that hangs.
    ``missed`` counts the witnesses in a row: children that missed the deadline there, and one more for a
    child that cannot be ended and still sits there.
    """

    index: int
    gpu: GpuUuid | None = None
    call: str = ""
    missed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeProcess:
    """A process of the probe that has not ended; pid and start time (clock ticks) name it within a boot.

    ``index`` and ``call`` say where it was when it was told to end; None = it was not, or was in no call.
    """

    pid: int
    started_ticks: int
    boot_id: str
    index: int | None = None
    gpu: GpuUuid | None = None
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReading:
    """One cycle of the GPU probe.

    ``counted`` is the driver's own device count. ``code`` is the NVML code of NO_DRIVER. ``stuck_children``
    counts probe children that could not be ended (state D). ``missed`` counts children in a row that
    missed the deadline; 0 beside DEADLINE = single GPUs are to blame, which are in ``hung``. ``call`` is
    the driver's call that hung then. ``is_repeat`` = the last failure told again while no new child was due
    or done: it is no second witness of it.
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
    call: str = ""
    hung: tuple[HungGpu, ...] = ()
    children: tuple[ProbeProcess, ...] = ()
    is_repeat: bool = False


class KernelKind(enum.StrEnum):
    """What a line of the kernel log is about."""

    XID = "xid"
    SXID = "sxid"
    BUS_LOST = "bus_lost"
    """The driver's words "fallen off the bus", with or without an Xid."""
    INIT_FAILED = "init_failed"
    """RmInitAdapter failed."""
    OOM = "oom"
    PCIE = "pcie"
    """Uncorrected PCIe error (AER)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One line. ``bus`` is the PCI address without function, such as ``0000:18:00``; code 0 = none."""

    kind: KernelKind
    code: int = 0
    bus: str = ""
    pid: int | None = None
    text: str = ""
    is_fatal: bool = True
    """For SXid: Fatal or Non-fatal, as the line says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReading:
    """What the kernel log brought since the look before. ``missed`` lines were overwritten, or too many."""

    at: float
    events: tuple[KernelEvent, ...] = ()
    missed: int = 0
    why_blind: str = ""
    """Why the log cannot be read; empty = it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesReading:
    """The GPUs as everyone but NVML sees them. None = that place cannot be read here."""

    at: float
    pci: tuple[str, ...] | None = None
    """Addresses of NVIDIA display devices in sysfs, without function."""
    driver: tuple[str, ...] | None = None
    """Addresses that the driver lists in /proc/driver/nvidia/gpus."""
    nodes: int | None = None
    """Device files /dev/nvidia0, 1, ..."""


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
    memory_stall_ratio: float | None = None
    """PSI memory full avg10: share of the last 10 s in which nothing ran for lack of memory."""
    io_stall_ratio: float | None = None
    """PSI io full avg10: ... in which nothing ran since all waited for a disk or a file server."""
    cpu_stall_ratio: float | None = None
    """PSI cpu some avg10: ... in which somebody waited for a CPU."""
    blocked_processes: int | None = None
    """Processes that wait for input or output right now (/proc/stat procs_blocked)."""
    oom_kills_total: int | None = None
    stuck_processes: int | None = None
    """Processes in state D whose name starts with nvidia."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How one GPU did over a while; None = not watched for long enough, or not offered."""

    corrected_per_s: float | None = None
    """Corrected memory errors, mean of the last 5 minutes."""
    hw_slowdown_ratio: float | None = None
    """Share of the looks of the last 10 minutes."""
    power_brake_ratio: float | None = None
    """... of the last 5 minutes."""
    sw_thermal_ratio: float | None = None
    """... of the last 30 minutes."""
    slow_clock_ratio: float | None = None
    """Looks of the last 10 minutes that were busy and had a low clock without any reason."""
    replays_per_min: float | None = None
    nvlink_errors_per_min: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLooks:
    """How the driver answered over the last 10 minutes."""

    looks: int = 0
    slow: int = 0
    """Looks that took longer than a second, or that had no answer in time."""


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
    trends: Mapping[GpuUuid, Trend] = field(default_factory=dict)
    slow_looks: SlowLooks = field(default_factory=SlowLooks)
    kernel: KernelReading | None = None
    devices: DevicesReading | None = None
    ray_gpus: int | None = None
    """GPUs that Ray believes the node to have; None = not a member, or not asked lately."""
    checks: tuple[SiteReading, ...] = ()
    """The last word of each of the site's checks."""
    ports: PortsReading | None = None
    mounts: MountsReading | None = None
    sensors: tuple[SensorState, ...] = ()
    """How each sensor beside the driver stands."""
