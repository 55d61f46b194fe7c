"""The series that dashboards for NVIDIA's exporter read, from our readings: ``[http] dcgm_compat``. Pure.

Names, units and labels are those of dcgm-exporter (default-counters.csv and its templates): memory in MiB,
power in W, energy in mJ, clocks in MHz, temperature in °C, utilisation in percent. A value that the driver
does not offer is left out; that exporter writes a sentinel there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.exposition import Kind, Metric, Sample, Stability
from gpuherd.names import NodeName
from gpuherd_agent.readings import GpuReading, Snapshot

LABELS: Final = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "Hostname",
    "DCGM_FI_DRIVER_VERSION",
)
_MIB: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series and where its value comes from; None = not offered."""

    metric: Metric
    value: Callable[[GpuReading], float | None]


def _series(
    name: str, text: str, value: Callable[[GpuReading], float | None], kind: Kind = Kind.GAUGE
) -> Series:
    metric = Metric(
        name=f"DCGM_FI_DEV_{name}", kind=kind, help=text, labels=LABELS, stability=Stability.ALPHA
    )
    return Series(metric=metric, value=value)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _mib(value: int | None) -> float | None:
    return None if value is None else value // _MIB


def _free(gpu: GpuReading) -> float | None:
    if gpu.total_bytes is None or gpu.used_bytes is None:
        return None
    return _mib(max(0, gpu.total_bytes - gpu.used_bytes - (gpu.reserved_bytes or 0)))


SERIES: Final[tuple[Series, ...]] = (
    _series("SM_CLOCK", "SM clock frequency (in MHz).", lambda g: _times(g.sm_clock_hertz, 1e-6)),
    _series("MEM_CLOCK", "Memory clock frequency (in MHz).", lambda g: _times(g.memory_clock_hertz, 1e-6)),
    _series("GPU_TEMP", "GPU temperature (in C).", lambda g: g.core_celsius),
    _series("MEMORY_TEMP", "Memory temperature (in C).", lambda g: g.memory_celsius),
    _series("POWER_USAGE", "Power draw (in W).", lambda g: g.power_watts),
    _series(
        "TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        lambda g: _times(g.energy_joules_total, 1_000.0),
        Kind.COUNTER,
    ),
    _series(
        "PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", lambda g: g.pcie_replays_total, Kind.COUNTER
    ),
    _series(
        "MEM_COPY_UTIL", "Memory utilization (in %).", lambda g: _times(g.memory_utilisation_ratio, 100.0)
    ),
    _series("ENC_UTIL", "Encoder utilization (in %).", lambda g: _times(g.encoder_utilisation_ratio, 100.0)),
    _series("DEC_UTIL", "Decoder utilization (in %).", lambda g: _times(g.decoder_utilisation_ratio, 100.0)),
    _series("GPU_UTIL", "GPU utilization (in %).", lambda g: _times(g.utilisation_ratio, 100.0)),
    _series("FB_FREE", "Framebuffer memory free (in MiB).", _free),
    _series("FB_USED", "Framebuffer memory used (in MiB).", lambda g: _mib(g.used_bytes)),
    _series("FB_RESERVED", "Framebuffer memory reserved (in MiB).", lambda g: _mib(g.reserved_bytes)),
    _series(
        "ECC_SBE_VOL_TOTAL",
        "Total number of single-bit volatile ECC errors.",
        lambda g: g.ecc_corrected_volatile_total,
        Kind.COUNTER,
    ),
    _series(
        "ECC_DBE_VOL_TOTAL",
        "Total number of double-bit volatile ECC errors.",
        lambda g: g.ecc_uncorrected_volatile_total,
        Kind.COUNTER,
    ),
    _series(
        "ECC_DBE_AGG_TOTAL",
        "Total number of double-bit persistent ECC errors.",
        lambda g: g.ecc_uncorrected_aggregate_total,
        Kind.COUNTER,
    ),
    _series(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors.",
        lambda g: g.rows_remapped_uncorrected_total,
        Kind.COUNTER,
    ),
    _series(
        "CORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for correctable errors.",
        lambda g: g.rows_remapped_corrected_total,
        Kind.COUNTER,
    ),
    _series(
        "ROW_REMAP_FAILURE",
        "Whether remapping of rows has failed.",
        lambda g: None if g.is_row_remap_failed is None else float(g.is_row_remap_failed),
    ),
)
"""In the order of the page."""

METRICS: Final = tuple(series.metric for series in SERIES)


def samples(snapshot: Snapshot, node: NodeName) -> Iterator[Sample]:
    """Yield the series of every GPU that answers."""
    probe = snapshot.probe
    for gpu in probe.gpus if probe else ():
        labels = (
            str(gpu.index),
            gpu.gpu,
            gpu.pci_bus_id,
            f"nvidia{gpu.index}",
            gpu.model,
            node,
            probe.driver if probe else "",
        )
        for series in SERIES:
            value = series.value(gpu)
            if value is not None:
                yield Sample(series.metric.name, value, labels)
