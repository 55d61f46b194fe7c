"""GPU readings through NVIDIA's NVML: the only module that imports pynvml, in the probe child only.

Each index and each call fails alone. A call that the driver does not offer leaves None; a call that it
offers and that failed leaves None and its code in ``errors``.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import pynvml

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, LostHandle, NvmlCode, ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.backend import HOST, Ask, BackendFailed, Notes
from gpuherd_agent.sensors.watched import Watched

T = TypeVar("T")
Handle = Any
"""An opaque pointer of an untyped library."""

_ARGUMENT_VERSION_MISMATCH: Final = 25
"""An older driver's word for a struct it does not know. Source: nvml.h, nvmlReturn_t."""

_NOT_OFFERED: Final = frozenset(
    {NvmlCode.NOT_SUPPORTED, NvmlCode.FUNCTION_NOT_FOUND, _ARGUMENT_VERSION_MISMATCH}
)
_GONE: Final = frozenset({NvmlCode.GPU_IS_LOST, NvmlCode.RESET_REQUIRED})
"""After one of these each further call gives the same answer, and may be slow in giving it."""

SLOW_EVERY: Final = 10
_NO_ATTACH: Final = 2
"""NVML_INIT_FLAG_NO_ATTACH: start without the GPUs; each is attached when its handle is asked for."""
_PLAIN: Final = frozenset({"nvmlErrorString"})
"""pynvml sets what this one returns."""
_CLOCK_SM: Final = 1
_NVLINKS_MAX: Final = 18
_HW_SLOWDOWN, _SW_THERMAL, _POWER_BRAKE = 0x8 | 0x40, 0x20, 0x80
"""nvmlClocksEventReasons: HW slowdown and HW thermal slowdown, SW thermal slowdown, HW power brake."""
_SENSOR_CORE: Final = 0
_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX = 0, 1, 2
"""nvmlTemperatureThresholds_t."""
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1

_FIELD_MEMORY_CELSIUS: Final = 82
_FIELD_SLOWDOWN_TLIMIT: Final = 194
_FIELD_RECOVERY_ACTION: Final = 230
_FIELD_MEMBERS: Final = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
"""nvmlValueType_t to the union's member; T.Limit offsets are signed. Source: nvml.h."""


@dataclass(slots=True)
class _Calls:
    """Calls on one GPU; remembers what failed and makes none after the GPU said that it is gone."""

    errors: dict[str, int] = field(default_factory=dict)
    is_gone: bool = False

    def value(self, name: str, call: Callable[[], T]) -> T | None:
        """Return what ``call`` yields; None when it is not offered, or failed and is now in ``errors``."""
        if self.is_gone:
            return None
        try:
            return call()
        except pynvml.NVMLError as error:
            code = int(error.value)
        if code not in _NOT_OFFERED:
            self.errors[name] = code
            self.is_gone = code in _GONE
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fixed:
    """What a board never changes while the driver is loaded: read once, since each call costs."""

    pci_bus_id: str
    model: str
    serial: str
    vbios: str
    link_width_max: int | None
    slowdown_celsius: float | None
    shutdown_celsius: float | None
    memory_max_celsius: float | None
    slowdown_offset_celsius: float | None


_Slow = dict[str, Any]
"""Fields of a reading that change rarely: read in every SLOW_EVERY-th cycle."""


class NvmlBackend:
    """NVML by nvidia-ml-py. ``library`` is an already loaded one; None = found by the dynamic loader."""

    def __init__(self, library: object = None) -> None:
        self._library = library
        self._notes: Notes
        self._fixed: dict[GpuUuid, _Fixed] = {}
        self._slow: dict[GpuUuid, _Slow] = {}
        self._cycles = 0
        self._driver = ""

    def open(self, notes: Notes, ask: Ask) -> None:
        """Load and initialise NVML; raises BackendFailed with its code.

        While a GPU is left out none is attached: starting the library would else wait for that one.
        """
        self._notes = notes
        if self._library is not None:
            pynvml.nvmlLib = self._library
        notes.enter("nvmlInitWithFlags")
        try:
            pynvml.nvmlInitWithFlags(0 if ask.is_whole else _NO_ATTACH)
            pynvml.nvmlLib = Watched(pynvml.nvmlLib, notes, plain=_PLAIN)
            self._driver = pynvml.nvmlSystemGetDriverVersion()
        except pynvml.NVMLError as error:
            raise BackendFailed(int(error.value)) from error

    def read(self, ask: Ask) -> ProbeReading:
        """Return every wanted index that the driver counts, each asked by itself; raises BackendFailed."""
        is_slow_turn = self._cycles % SLOW_EVERY == 0
        try:
            counted = int(pynvml.nvmlDeviceGetCount())
            if is_slow_turn and pynvml.nvmlSystemGetDriverVersion() != self._driver:
                raise BackendFailed(NvmlCode.UNINITIALIZED)  # loaded anew below us: what we know is void
        except pynvml.NVMLError as error:
            raise BackendFailed(int(error.value)) from error
        if is_slow_turn:
            self._slow.clear()
        self._cycles += 1
        gpus: list[GpuReading] = []
        lost: list[LostHandle] = []
        for index in filter(ask.wants, range(counted)):
            self._notes.turn_to(index)
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpu = GpuUuid(pynvml.nvmlDeviceGetUUID(handle))
            except pynvml.NVMLError as error:
                lost.append(LostHandle(index=index, code=int(error.value)))
                continue
            gpus.append(self._gpu(index, gpu, handle))
        self._notes.turn_to(HOST)
        return ProbeReading(
            outcome=ProbeOutcome.OK, gpus=tuple(gpus), lost=tuple(lost), counted=counted, driver=self._driver
        )

    def close(self) -> None:
        """Shut NVML down; a driver that refuses is left as it is."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def _gpu(self, index: int, gpu: GpuUuid, handle: Handle) -> GpuReading:
        calls = _Calls()
        fixed = self._fixed.get(gpu)
        if fixed is None:
            fixed = _read_fixed(calls, handle)
            if not calls.errors:
                self._fixed[gpu] = fixed
        slow = self._slow.get(gpu)
        if slow is None:
            slow = self._slow[gpu] = _read_slow(calls, handle)
        core = calls.value("core_celsius", lambda: _core_celsius(handle))
        total, used, reserved = calls.value("memory", lambda: _memory(handle)) or (None, None, None)
        rates = calls.value("utilisation_ratio", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
        milliwatts = calls.value("power_watts", lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
        margin = calls.value("margin_celsius", lambda: pynvml.nvmlDeviceGetMarginTemperature(handle))
        action = calls.value("recovery_action", lambda: _field(handle, _FIELD_RECOVERY_ACTION))
        reading = GpuReading(
            gpu=gpu,
            index=index,
            pci_bus_id=fixed.pci_bus_id,
            model=fixed.model,
            core_celsius=core,
            memory_celsius=calls.value("memory_celsius", lambda: _field(handle, _FIELD_MEMORY_CELSIUS)),
            slowdown_celsius=fixed.slowdown_celsius,
            shutdown_celsius=fixed.shutdown_celsius,
            memory_max_celsius=fixed.memory_max_celsius,
            margin_celsius=_above(margin, fixed.slowdown_offset_celsius),
            used_bytes=used,
            total_bytes=total,
            reserved_bytes=reserved,
            ecc_uncorrected_volatile_total=_ecc(calls, handle, _UNCORRECTED, _VOLATILE),
            ecc_uncorrected_aggregate_total=_ecc(calls, handle, _UNCORRECTED, _AGGREGATE),
            ecc_corrected_volatile_total=_ecc(calls, handle, _CORRECTED, _VOLATILE),
            utilisation_ratio=None if rates is None else int(rates.gpu) / 100,
            memory_utilisation_ratio=None if rates is None else int(rates.memory) / 100,
            power_watts=None if milliwatts is None else int(milliwatts) / 1000,
            recovery_action=None if action is None else int(action),
            serial=fixed.serial,
            vbios=fixed.vbios,
            link_width_max=fixed.link_width_max,
            pids=calls.value("pids", lambda: _pids(handle)),
            errors=calls.errors,
        )
        return _with_pace(replace(reading, **slow), calls, handle)


def _above(margin: float | None, offset: float | None) -> float | None:
    """Return degrees left before the GPU slows down, from NVML's margin and the offset of its T.Limit."""
    return None if margin is None or offset is None else float(margin) - offset


def _with_pace(reading: GpuReading, calls: _Calls, handle: Handle) -> GpuReading:
    """Add how fast the GPU goes and what it has used up; NVML counts MHz, millijoules and percent."""
    clock, read = pynvml.nvmlDeviceGetClockInfo, calls.value
    sm = read("sm_clock", lambda: int(clock(handle, pynvml.NVML_CLOCK_SM)))
    memory = read("memory_clock", lambda: int(clock(handle, pynvml.NVML_CLOCK_MEM)))
    spent = read("energy", lambda: int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
    encoder = read("encoder", lambda: int(pynvml.nvmlDeviceGetEncoderUtilization(handle)[0]))
    reasons = read("clock_reasons", lambda: _clock_reasons(handle))
    decoder = read("decoder", lambda: int(pynvml.nvmlDeviceGetDecoderUtilization(handle)[0]))
    return replace(
        reading,
        sm_clock_hertz=None if sm is None else sm * 1e6,
        memory_clock_hertz=None if memory is None else memory * 1e6,
        energy_joules_total=None if spent is None else spent / 1_000,
        encoder_utilisation_ratio=None if encoder is None else encoder / 100,
        decoder_utilisation_ratio=None if decoder is None else decoder / 100,
        hw_slowdown=None if reasons is None else bool(reasons & _HW_SLOWDOWN),
        power_brake=None if reasons is None else bool(reasons & _POWER_BRAKE),
        sw_thermal=None if reasons is None else bool(reasons & _SW_THERMAL),
        pcie_replays_total=read("replays", lambda: int(pynvml.nvmlDeviceGetPcieReplayCounter(handle))),
    )


def _read_slow(calls: _Calls, handle: Handle) -> _Slow:
    """Return what changes rarely, by its field of the reading; what is not offered is None."""

    def whole(name: str, call: Callable[[Handle], int]) -> int | None:
        return calls.value(name, lambda: int(call(handle)))

    persistence = whole("persistence", pynvml.nvmlDeviceGetPersistenceMode)
    limit = whole("power_limit", pynvml.nvmlDeviceGetEnforcedPowerLimit)
    fan = whole("fan_ratio", pynvml.nvmlDeviceGetFanSpeed)
    sm = calls.value("sm_clock_max", lambda: int(pynvml.nvmlDeviceGetMaxClockInfo(handle, _CLOCK_SM)))
    rows = calls.value("row_remap", lambda: pynvml.nvmlDeviceGetRemappedRows(handle)) or (None,) * 4
    ecc = calls.value("ecc_mode", lambda: pynvml.nvmlDeviceGetEccMode(handle)) or (None, None)
    mig = calls.value("mig_mode", lambda: pynvml.nvmlDeviceGetMigMode(handle)) or (None, None)
    up, links = _nvlinks(calls, handle)
    return {
        "is_persistent": _flag(persistence),
        "link_width": whole("link_width", pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        "rows_remapped_corrected_total": rows[0],
        "rows_remapped_uncorrected_total": rows[1],
        "is_row_remap_pending": _flag(rows[2]),
        "is_row_remap_failed": _flag(rows[3]),
        "ecc_enabled": _flag(ecc[0]),
        "ecc_pending": _flag(ecc[1]),
        "mig_enabled": _flag(mig[0]),
        "mig_pending": _flag(mig[1]),
        "power_limit_watts": None if limit is None else limit / 1_000,
        "fan_ratio": None if fan is None else fan / 100,
        "sm_clock_max_hertz": None if sm is None else sm * 1e6,
        "pcie_generation": whole("pcie_generation", pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
        "pcie_generation_max": whole("pcie_generation_max", pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        "nvlinks_up": up,
        "nvlinks_supported": links,
        "retired_pending": _flag(whole("retired_pending", pynvml.nvmlDeviceGetRetiredPagesPendingStatus)),
    }


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _nvlinks(calls: _Calls, handle: Handle) -> tuple[int | None, int | None]:
    """Return how many NVLinks are up, of how many; none where the board has none.

    The number of links is told by the first that is no link: NVML has no call for it that old drivers know.
    """
    states: list[int] = []
    for link in range(_NVLINKS_MAX):
        try:
            states.append(int(pynvml.nvmlDeviceGetNvLinkState(handle, link)))
        except pynvml.NVMLError as error:
            code = int(error.value)
            if code not in {*_NOT_OFFERED, NvmlCode.INVALID_ARGUMENT}:
                calls.errors["nvlinks"] = code
                return None, None
            break
    return (sum(states), len(states)) if states else (None, None)


def _clock_reasons(handle: Handle) -> int:
    """Return the bits that say why clocks are held down; drivers before 535 know the older name only."""
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError as error:
        if int(error.value) not in _NOT_OFFERED:
            raise
    return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _read_fixed(calls: _Calls, handle: Handle) -> _Fixed:
    bus = calls.value("pci_bus_id", lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
    return _Fixed(
        pci_bus_id=_text(bus),
        model=_text(calls.value("model", lambda: pynvml.nvmlDeviceGetName(handle))),
        serial=_text(calls.value("serial", lambda: pynvml.nvmlDeviceGetSerial(handle))),
        vbios=_text(calls.value("vbios", lambda: pynvml.nvmlDeviceGetVbiosVersion(handle))),
        link_width_max=calls.value(
            "link_width_max", lambda: int(pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
        ),
        slowdown_celsius=calls.value("slowdown_celsius", lambda: _threshold(handle, _SLOWDOWN)),
        shutdown_celsius=calls.value("shutdown_celsius", lambda: _threshold(handle, _SHUTDOWN)),
        memory_max_celsius=calls.value("memory_max_celsius", lambda: _threshold(handle, _MEMORY_MAX)),
        slowdown_offset_celsius=calls.value(
            "slowdown_offset", lambda: _field(handle, _FIELD_SLOWDOWN_TLIMIT)
        ),
    )


def _text(value: bytes | str | None) -> str:
    """Return text; struct members come as bytes, plain results as str."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value or ""


def _core_celsius(handle: Handle) -> float:
    """Ask the newer call first; the older one goes away with CUDA 14, and old drivers have only that."""
    try:
        return float(pynvml.nvmlDeviceGetTemperatureV(handle, _SENSOR_CORE))
    except pynvml.NVMLError as error:
        if int(error.value) not in _NOT_OFFERED:
            raise
    return float(pynvml.nvmlDeviceGetTemperature(handle, _SENSOR_CORE))


def _threshold(handle: Handle, kind: int) -> float:
    return float(pynvml.nvmlDeviceGetTemperatureThreshold(handle, kind))


def _memory(handle: Handle) -> tuple[int, int, int | None]:
    """Return total, used and reserved bytes.

    Version 2 leaves what the driver reserves out of ``used``; version 1 counts it in since R510. Some
    platforms answer v2 with "unknown", so any error but a lost GPU tries v1.
    """
    try:
        second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if int(error.value) in _GONE:
            raise
    else:
        return int(second.total), int(second.used), int(second.reserved)
    first = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return int(first.total), int(first.used), None


def _ecc(calls: _Calls, handle: Handle, kind: int, counter: int) -> int | None:
    name = f"ecc_{'un' if kind else ''}corrected_{'aggregate' if counter else 'volatile'}"
    return calls.value(name, lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter)))


def _field(handle: Handle, number: int) -> float:
    """Return one field's value; its own return code counts, not only the call's."""
    (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [number])
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    member = _FIELD_MEMBERS.get(int(value.valueType))
    if member is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return float(getattr(value.value, member))


def _pids(handle: Handle) -> tuple[int, ...]:
    """Return all processes on the GPU: compute at least, graphics and MPS where the driver lists them.

    The versioned names, since the plain ones raise an error that is no NVMLError when a driver lacks them.
    """
    found = {int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)}
    for processes in (
        pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
    ):
        try:
            found |= {int(process.pid) for process in processes(handle)}
        except pynvml.NVMLError as error:
            if int(error.value) not in _NOT_OFFERED:
                raise
    return tuple(sorted(found))
