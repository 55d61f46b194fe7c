"""What earlier looks add to a new one: GPUs once seen, and where their counters stood. Pure memory."""

from collections.abc import Sequence
from dataclasses import replace

from gpuherd.names import GpuUuid
from gpuherd_agent.memory import Board
from gpuherd_agent.readings import GpuReading, NvmlCode, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.trends import Trends


class Sightings:
    """Feed every look in; each comes back as a Snapshot. ``boards`` are the GPUs of the agent's last run."""

    def __init__(self, boards: Sequence[Board] = ()) -> None:
        self._known: dict[GpuUuid, None] = {board.gpu: None for board in boards}
        self._ecc: dict[GpuUuid, int] = {}
        self._total_bytes: dict[GpuUuid, int] = {}
        self._trends = Trends()
        self._pci_bus_ids: dict[GpuUuid, str] = {b.gpu: b.pci_bus_id for b in boards if b.pci_bus_id}

    def take(self, *, probe: ProbeReading, declared: int, now: float) -> Snapshot:
        """Return the look with what was known before it; ``now`` is monotonic seconds."""
        probe = self._with_names(probe)
        for reading in probe.gpus:
            self._see(reading)
        trends = self._trends.take(probe, now)
        if _is_whole(probe, declared):
            self._known = {reading.gpu: None for reading in probe.gpus}
        return Snapshot(
            at=now,
            declared=declared,
            probe=probe,
            known=tuple(self._known),
            ecc_baseline=dict(self._ecc),
            total_bytes_baseline=dict(self._total_bytes),
            pci_bus_ids=dict(self._pci_bus_ids),
            trends=trends,
            slow_looks=self._trends.slow_looks(),
        )

    def _with_names(self, probe: ProbeReading) -> ProbeReading:
        """Give GPUs that hang the names of those that are not read, where no doubt is left which is which."""
        nameless = [hung for hung in probe.hung if hung.gpu is None]
        if not nameless or probe.outcome is not ProbeOutcome.OK:
            return probe
        here = {*(g.gpu for g in probe.gpus), *(hung.gpu for hung in probe.hung)}
        missing = [gpu for gpu in self._known if gpu not in here]
        if len(missing) != len(nameless) or probe.lost:
            return probe
        names = iter(missing)
        return replace(probe, hung=tuple(h if h.gpu else replace(h, gpu=next(names)) for h in probe.hung))

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


def _is_whole(probe: ProbeReading, declared: int) -> bool:
    """Say whether every declared GPU answers: then one that is not among them has been taken out."""
    if not declared or probe.counted != declared or len(probe.gpus) != declared:
        return False
    return not any(NvmlCode.GPU_IS_LOST in reading.errors.values() for reading in probe.gpus)


def boards(snapshot: Snapshot, before: Sequence[Board] = ()) -> tuple[Board, ...]:
    """Return the GPUs to be remembered; of one that does not answer now, what was known ``before``."""
    read = {g.gpu: g for g in snapshot.probe.gpus} if snapshot.probe else {}
    known = {board.gpu: board for board in before}
    return tuple(_board(gpu, read.get(gpu), known.get(gpu), snapshot) for gpu in snapshot.known)


def _board(gpu: GpuUuid, reading: GpuReading | None, before: Board | None, snapshot: Snapshot) -> Board:
    old = before or Board(gpu=gpu)
    if reading is None:
        return old if old.pci_bus_id else Board(gpu=gpu, pci_bus_id=snapshot.pci_bus_ids.get(gpu, ""))
    total = reading.ecc_uncorrected_aggregate_total
    return Board(
        gpu=gpu,
        pci_bus_id=reading.pci_bus_id or old.pci_bus_id,
        serial=reading.serial or old.serial,
        vbios=reading.vbios or old.vbios,
        ecc_uncorrected_total=old.ecc_uncorrected_total if total is None else total,
    )
