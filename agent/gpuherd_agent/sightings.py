"""What earlier looks add to a new one: GPUs once seen, and where their counters stood. Pure memory."""

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, HostReading, ProbeReading, Snapshot


class Sightings:
    """Feed every look in; each comes back as a Snapshot. Starts empty with the agent."""

    def __init__(self) -> None:
        self._known: dict[GpuUuid, None] = {}
        self._ecc: dict[GpuUuid, int] = {}
        self._total_bytes: dict[GpuUuid, int] = {}
        self._pci_bus_ids: dict[GpuUuid, str] = {}

    def take(self, *, probe: ProbeReading, host: HostReading | None, declared: int, now: float) -> Snapshot:
        """Return the look with what was known before it; ``now`` is monotonic seconds."""
        for reading in probe.gpus:
            self._see(reading)
        return Snapshot(
            at=now,
            declared=declared,
            probe=probe,
            host=host,
            known=tuple(self._known),
            ecc_baseline=dict(self._ecc),
            total_bytes_baseline=dict(self._total_bytes),
            pci_bus_ids=dict(self._pci_bus_ids),
        )

    def _see(self, reading: GpuReading) -> None:
        self._known[reading.gpu] = None
        if reading.pci_bus_id:
            self._pci_bus_ids[reading.gpu] = reading.pci_bus_id
        errors = reading.ecc_uncorrected_volatile_total
        if errors is not None:
            # A count below its baseline = the driver was loaded anew, which resets volatile counters.
            self._ecc[reading.gpu] = min(errors, self._ecc.get(reading.gpu, errors))
        if reading.total_bytes is not None:
            self._total_bytes.setdefault(reading.gpu, reading.total_bytes)
