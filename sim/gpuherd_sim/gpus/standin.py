"""The compiler-free stand-in: an object with NVML's functions that acts out a scenario file.

It takes the place of the loaded C library below nvidia-ml-py, so the agent's own NVML code runs on top
of it unchanged. Functions fill the ctypes values they are handed; ``byref(x)._obj`` is x.
"""

import ctypes
import functools
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gpuherd.errors import ConfigInvalid
from gpuherd_agent.sensors.nvml import NvmlBackend
from gpuherd_sim.gpus.scenario import MAX_GPUS, Scenario, Value
from gpuherd_sim.gpus.scenario_file import VARIABLE, read_scenario

Pointer = Any
"""A ctypes pointer, array or byref result: untyped by its nature."""

_SUCCESS, _INVALID_ARGUMENT, _NOT_SUPPORTED, _INSUFFICIENT_SIZE = 0, 2, 3, 7
_DRIVER_NOT_LOADED, _VERSION_MISMATCH = 9, 25
_HANDLES: Final = 0x1000
_HANG_STEP_S: Final = 0.02
_UNSIGNED_INT, _SIGNED_INT = 1, 5


def open_backend() -> NvmlBackend:
    """Return a backend that reads the scenario which GPUHERD_GPU_SCENARIO names."""
    return NvmlBackend(library=ScenarioLibrary(Path(os.environ.get(VARIABLE, "scenario.toml"))))


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ScenarioLibrary:
    """Looks like a loaded libnvidia-ml; a missing or broken file is a driver that is not loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._scenario: Scenario | None = None
        self._started_at = 0.0
        self._steps_passed = -1
        self._values: dict[str, Value] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in _CALLS:
            raise AttributeError(name)
        return functools.partial(_CALLS[name], self)

    def value(self, gpu: int, name: str) -> Value | None:
        """Return a GPU's own value, else that of all GPUs; gpu -1 is the host."""
        values = self._in_force()
        if gpu < 0:
            return values.get(name)
        return values.get(f"gpu.{gpu}.{name}", values.get(f"all.{name}"))

    def number(self, gpu: int, name: str) -> float:
        """Return a value as a number, 0 when it is not set."""
        value = self.value(gpu, name)
        return value if isinstance(value, int | float) else 0

    def text(self, gpu: int, name: str) -> str:
        """Return a value as text, empty when it is not set."""
        return str(self.value(gpu, name) or "")

    def gate(self, call: str, gpu: int = -1) -> int:
        """Hang as the scenario says, then return the code that this call fails with, or 0."""
        self._hang(call, gpu)
        errors = [self.number(-1, f"call.{call}.error")]
        if gpu >= 0:
            errors += [self.number(gpu, "error"), self.number(gpu, f"call.{call}.error")]
        failed = next((int(code) for code in errors if code), _SUCCESS)
        return failed or (_SUCCESS if "gpus" in self._in_force() else _DRIVER_NOT_LOADED)

    def present(self) -> list[int]:
        """Return the numbers of the GPUs that the driver counts, in index order."""
        count = min(int(self.number(-1, "gpus")), MAX_GPUS)
        return [number for number in range(count) if not self.number(number, "gone")]

    def _hang(self, call: str, gpu: int) -> None:
        since, before = _boot_s(), None
        while _boot_s() - since < self._hang_s(call, gpu):
            if before is None and self.number(-1, "hang_blocks_term"):
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            time.sleep(_HANG_STEP_S)
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _hang_s(self, call: str, gpu: int) -> float:
        host = max(self.number(-1, "hang_s"), self.number(-1, f"call.{call}.hang_s"))
        if gpu < 0:
            return host
        return max(host, self.number(gpu, "hang_s"), self.number(gpu, f"call.{call}.hang_s"))

    def _in_force(self) -> dict[str, Value]:
        self._refresh()
        if self._scenario is None:
            return {}
        elapsed = _boot_s() - self._started_at
        passed = sum(setting.at_s <= elapsed for setting in self._scenario.settings)
        if passed != self._steps_passed:
            self._steps_passed, self._values = passed, self._scenario.in_force(elapsed)
        return self._values

    def _refresh(self) -> None:
        try:
            now = self._path.stat()
            stamp = (now.st_ino, now.st_mtime_ns)
            if stamp == self._stamp:
                return
            scenario = read_scenario(self._path)
        except (OSError, UnicodeDecodeError, ConfigInvalid):
            self._scenario = self._stamp = None
            return
        self._stamp, self._scenario, self._steps_passed = stamp, scenario, -1
        self._started_at = _boot_s() if scenario.started_at is None else scenario.started_at


def _host(name: str, body: Callable[..., int]) -> Callable[..., int]:
    def call(library: ScenarioLibrary, *arguments: Pointer) -> int:
        return library.gate(name) or body(library, *arguments)

    return call


def _gpu(name: str, body: Callable[..., int]) -> Callable[..., int]:
    def call(library: ScenarioLibrary, handle: Pointer, *arguments: Pointer) -> int:
        gpu = (ctypes.cast(handle, ctypes.c_void_p).value or _HANDLES) - _HANDLES
        return library.gate(name, gpu) or body(library, gpu, *arguments)

    return call


def _nothing(*_: object) -> int:
    return _SUCCESS


def _driver_version(library: ScenarioLibrary, out: Pointer, _length: Pointer) -> int:
    out.value = library.text(-1, "driver").encode()
    return _SUCCESS


def _count(library: ScenarioLibrary, out: Pointer) -> int:
    out._obj.value = len(library.present())  # noqa: SLF001  ctypes' own name of what byref points to
    return _SUCCESS


def _handle(library: ScenarioLibrary, index: Pointer, out: Pointer) -> int:
    present = library.present()
    if index.value >= len(present):
        return _INVALID_ARGUMENT
    gpu = present[index.value]
    failed = library.gate("nvmlDeviceGetHandleByIndex_v2", gpu)
    if not failed:
        target = ctypes.pointer(out._obj)  # noqa: SLF001
        ctypes.cast(target, ctypes.POINTER(ctypes.c_void_p))[0] = _HANDLES + gpu
    return failed


def _text_of(value: str) -> Callable[..., int]:
    def body(library: ScenarioLibrary, gpu: int, out: Pointer, _length: Pointer) -> int:
        out.value = library.text(gpu, value).encode()
        return _SUCCESS

    return body


def _pci_info(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    pci = out._obj  # noqa: SLF001
    pci.bus = 0x10 + gpu
    pci.busId = (library.text(gpu, "pci_bus_id") or f"00000000:{pci.bus:02X}:00.0").encode()[:31]
    return _SUCCESS


def _temperature_v(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    temperature = out._obj  # noqa: SLF001
    if temperature.version != ctypes.sizeof(temperature) | 1 << 24:
        return _VERSION_MISMATCH
    if temperature.sensorType != 0:
        return _INVALID_ARGUMENT
    temperature.temperature = int(library.number(gpu, "core_celsius"))
    return _SUCCESS


def _temperature(library: ScenarioLibrary, gpu: int, sensor: Pointer, out: Pointer) -> int:
    if sensor.value != 0:
        return _INVALID_ARGUMENT
    out._obj.value = int(library.number(gpu, "core_celsius"))  # noqa: SLF001
    return _SUCCESS


def _margin(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    out._obj.marginTemperature = int(library.number(gpu, "margin_celsius"))  # noqa: SLF001
    return _SUCCESS


def _threshold(library: ScenarioLibrary, gpu: int, kind: Pointer, out: Pointer) -> int:
    names = ("shutdown_celsius", "slowdown_celsius", "memory_max_celsius")
    if kind.value >= len(names):
        return _NOT_SUPPORTED
    out._obj.value = int(library.number(gpu, names[kind.value]))  # noqa: SLF001
    return _SUCCESS


def _memory(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    memory = out._obj  # noqa: SLF001
    total, used, reserved = (
        int(library.number(gpu, name)) for name in ("total_bytes", "used_bytes", "reserved_bytes")
    )
    memory.total = total
    memory.free = total - used - reserved
    if hasattr(memory, "version"):
        memory.used, memory.reserved = used, reserved
    else:
        memory.used = used + reserved
    return _SUCCESS


def _ecc(library: ScenarioLibrary, gpu: int, kind: Pointer, counter: Pointer, out: Pointer) -> int:
    name = f"ecc_{'un' if kind.value else ''}corrected_{'aggregate' if counter.value else 'volatile'}"
    out._obj.value = int(library.number(gpu, name))  # noqa: SLF001
    return _SUCCESS


def _utilisation(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    out._obj.gpu = int(library.number(gpu, "utilisation_percent"))  # noqa: SLF001
    out._obj.memory = int(library.number(gpu, "memory_utilisation_percent"))  # noqa: SLF001
    return _SUCCESS


def _clock(library: ScenarioLibrary, gpu: int, kind: Pointer, out: Pointer) -> int:
    name = {1: "sm_clock_mhz", 2: "memory_clock_mhz"}.get(kind.value)
    if name is None:
        return _NOT_SUPPORTED
    out._obj.value = int(library.number(gpu, name))  # noqa: SLF001
    return _SUCCESS


def _clock_max(library: ScenarioLibrary, gpu: int, kind: Pointer, out: Pointer) -> int:
    if kind.value != 1:
        return _NOT_SUPPORTED
    out._obj.value = int(library.number(gpu, "sm_clock_max_mhz"))  # noqa: SLF001
    return _SUCCESS


def _power_limit(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    out._obj.value = math.floor(library.number(gpu, "power_limit_watts") * 1000)  # noqa: SLF001
    return _SUCCESS


def _nvlink(library: ScenarioLibrary, gpu: int, link: Pointer, out: Pointer) -> int:
    number = link if isinstance(link, int) else link.value
    if number >= library.number(gpu, "nvlinks"):
        return _INVALID_ARGUMENT
    out._obj.value = int(number < library.number(gpu, "nvlinks_up"))  # noqa: SLF001
    return _SUCCESS


def _energy(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    out._obj.value = math.floor(library.number(gpu, "energy_joules") * 1000)  # noqa: SLF001
    return _SUCCESS


def _busy_of(name: str) -> Callable[..., int]:
    def body(library: ScenarioLibrary, gpu: int, percent: Pointer, period_us: Pointer) -> int:
        percent._obj.value = int(library.number(gpu, name))  # noqa: SLF001
        period_us._obj.value = 167_000  # noqa: SLF001
        return _SUCCESS

    return body


def _power(library: ScenarioLibrary, gpu: int, out: Pointer) -> int:
    out._obj.value = math.floor(library.number(gpu, "power_watts") * 1000)  # noqa: SLF001
    return _SUCCESS


def _whole_of(*names: str) -> Callable[..., int]:
    def body(library: ScenarioLibrary, gpu: int, *out: Pointer) -> int:
        for name, place in zip(names, out, strict=True):
            place._obj.value = int(library.number(gpu, name))  # noqa: SLF001
        return _SUCCESS

    return body


def _fields(library: ScenarioLibrary, gpu: int, count: Pointer, out: Pointer) -> int:
    for field in out._obj[: count.value]:  # noqa: SLF001
        field.nvmlReturn = int(library.number(gpu, f"field.{field.fieldId}.error"))
        field.valueType = _UNSIGNED_INT
        match field.fieldId:
            case 82:
                field.value.uiVal = int(library.number(gpu, "memory_celsius"))
            case 194:
                field.valueType = _SIGNED_INT
                field.value.siVal = int(library.number(gpu, "slowdown_offset_celsius"))
            case 230:
                field.value.uiVal = int(library.number(gpu, "recovery_action"))
            case _:
                field.nvmlReturn = _NOT_SUPPORTED
    return _SUCCESS


def _processes(library: ScenarioLibrary, gpu: int, count: Pointer, out: Pointer) -> int:
    value = library.value(gpu, "pids")
    pids = value if isinstance(value, tuple) else ()
    room = 0 if out is None else count._obj.value  # noqa: SLF001
    for process, pid in zip(out or (), pids[:room], strict=False):
        process.pid, process.usedGpuMemory = pid, 1 << 20
    count._obj.value = len(pids)  # noqa: SLF001
    return _INSUFFICIENT_SIZE if len(pids) > room else _SUCCESS


def _no_processes(_library: ScenarioLibrary, _gpu: int, count: Pointer, _out: Pointer) -> int:
    count._obj.value = 0  # noqa: SLF001
    return _SUCCESS


_HOST_CALLS: Final[dict[str, Callable[..., int]]] = {
    "nvmlInitWithFlags": _nothing,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _handle,
}
_GPU_CALLS: Final[dict[str, Callable[..., int]]] = {
    "nvmlDeviceGetUUID": _text_of("uuid"),
    "nvmlDeviceGetName": _text_of("model"),
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetPcieReplayCounter": _whole_of("pcie_replays"),
    "nvmlDeviceGetEncoderUtilization": _busy_of("encoder_percent"),
    "nvmlDeviceGetDecoderUtilization": _busy_of("decoder_percent"),
    "nvmlDeviceGetSerial": _text_of("serial"),
    "nvmlDeviceGetEccMode": _whole_of("ecc_mode", "ecc_mode_pending"),
    "nvmlDeviceGetMigMode": _whole_of("mig_mode", "mig_mode_pending"),
    "nvmlDeviceGetEnforcedPowerLimit": _power_limit,
    "nvmlDeviceGetMaxClockInfo": _clock_max,
    "nvmlDeviceGetCurrPcieLinkGeneration": _whole_of("pcie_generation"),
    "nvmlDeviceGetMaxPcieLinkGeneration": _whole_of("pcie_generation_max"),
    "nvmlDeviceGetCurrentClocksEventReasons": _whole_of("clock_reasons"),
    "nvmlDeviceGetNvLinkState": _nvlink,
    "nvmlDeviceGetVbiosVersion": _text_of("vbios"),
    "nvmlDeviceGetPersistenceMode": _whole_of("persistence"),
    "nvmlDeviceGetCurrPcieLinkWidth": _whole_of("link_width"),
    "nvmlDeviceGetMaxPcieLinkWidth": _whole_of("link_width_max"),
    "nvmlDeviceGetRemappedRows": _whole_of(
        "rows_remapped_corrected", "rows_remapped_uncorrected", "row_remap_pending", "row_remap_failed"
    ),
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetTemperatureV": _temperature_v,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetMarginTemperature": _margin,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
    "nvmlDeviceGetTotalEccErrors": _ecc,
    "nvmlDeviceGetUtilizationRates": _utilisation,
    "nvmlDeviceGetPowerUsage": _power,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetComputeRunningProcesses_v3": _processes,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _no_processes,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _no_processes,
}
_CALLS: Final[dict[str, Callable[..., int]]] = {
    "nvmlShutdown": _nothing,
    **{name: _host(name, body) for name, body in _HOST_CALLS.items()},
    **{name: _gpu(name, body) for name, body in _GPU_CALLS.items()},
}
