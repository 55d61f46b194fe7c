"""A host's GPUs and vital signs in virtual time, with the faults that GPUs have."""

import asyncio
import enum
from dataclasses import dataclass, field

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import GpuReading, HostReading, LostHandle, NvmlCode, ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.sense import Sense
from gpuherd_sim.journal import Journal

_GIB = 2**30


class LossKind(enum.StrEnum):
    """How a GPU goes missing."""

    HANDLE = "handle"
    """Still counted by the driver, which gives no handle any more: it has fallen off the bus."""
    COUNT = "count"
    """Not even counted."""


@dataclass(slots=True)
class FakeGpus:
    """What is true of one host's GPUs; faults change it, the probe reads it."""

    node: str
    journal: Journal
    declared: int = 8
    driver: str = "570.86.15"
    is_hung: bool = False
    no_driver: bool = False
    lost: dict[int, LossKind] = field(default_factory=dict)
    replaced: dict[int, str] = field(default_factory=dict)
    """Boards that were swapped, by index: the end of the new one's UUID."""

    def uuid(self, index: int) -> GpuUuid:
        """Return the stable name of the GPU at an index."""
        return GpuUuid(f"GPU-{self.node}-{self.replaced.get(index, index)}")

    def lose(self, index: int, kind: LossKind = LossKind.HANDLE) -> None:
        """Make one GPU go missing."""
        self.lost[index] = kind
        self.journal.add("fault", self.node, what="gpu lost", gpu=index)

    def lose_all(self) -> None:
        """Make every GPU go missing."""
        for index in range(self.declared):
            self.lose(index)

    def hang(self) -> None:
        """Make the driver answer no more."""
        self.is_hung = True
        self.journal.add("fault", self.node, what="driver hung")

    def recover(self) -> None:
        """Make everything well again."""
        self.lost.clear()
        self.is_hung = self.no_driver = False
        self.journal.add("fault", self.node, what="gpus recovered")

    @property
    def is_healthy(self) -> bool:
        """Say whether nothing is wrong, in truth."""
        return not (self.lost or self.is_hung or self.no_driver)


class FakeProbe:
    """``gpuherd_agent.doors.ProbeDoor`` over FakeGpus; its child process can be killed."""

    def __init__(self, gpus: FakeGpus, *, deadline_s: float = 5.0, cycle_s: float = 0.02) -> None:
        self._gpus = gpus
        self._deadline_s = deadline_s
        self._cycle_s = cycle_s
        self._child_died = False
        self._missed = 0

    async def read(self) -> ProbeReading:
        """Return one cycle."""
        gpus = self._gpus
        if self._child_died:
            self._child_died = False
            return ProbeReading(outcome=ProbeOutcome.CHILD_DIED)
        if gpus.is_hung:
            await asyncio.sleep(self._deadline_s)
            self._missed += 1
            return ProbeReading(
                outcome=ProbeOutcome.DEADLINE, duration_s=self._deadline_s, missed=self._missed
            )
        self._missed = 0
        await asyncio.sleep(self._cycle_s)
        if gpus.no_driver:
            return ProbeReading(outcome=ProbeOutcome.NO_DRIVER, code=NvmlCode.DRIVER_NOT_LOADED)
        return ProbeReading(
            outcome=ProbeOutcome.OK,
            gpus=tuple(self._gpu(i) for i in range(gpus.declared) if i not in gpus.lost),
            lost=tuple(
                LostHandle(index=i, code=NvmlCode.GPU_IS_LOST)
                for i, kind in sorted(gpus.lost.items())
                if kind is LossKind.HANDLE
            ),
            counted=sum(1 for i in range(gpus.declared) if gpus.lost.get(i) is not LossKind.COUNT),
            driver=gpus.driver,
            duration_s=self._cycle_s,
        )

    async def close(self) -> None:
        """Nothing to end: the child is part of the simulated host."""

    def kill_child(self) -> None:
        """Kill the probe's child: the next cycle finds it dead, the one after has a new child."""
        self._child_died = True

    def _gpu(self, index: int) -> GpuReading:
        return GpuReading(
            gpu=self._gpus.uuid(index),
            index=index,
            pci_bus_id=f"00000000:{index:02X}:00.0",
            model="Simulated GPU",
            core_celsius=50.0,
            slowdown_celsius=90.0,
            shutdown_celsius=95.0,
            used_bytes=0,
            total_bytes=80 * _GIB,
            ecc_uncorrected_volatile_total=0,
            ecc_uncorrected_aggregate_total=0,
            recovery_action=0,
            pids=(),
        )


class FakeHostSigns:
    """The vital signs of a host that is well."""

    def sense(self) -> Sense:
        """Return the sensor of them; it never waits, as nothing does in virtual time."""
        return Sense(name="host", look=lambda _now: self.read(), period_s=1.0, is_quick=True)

    def read(self) -> HostReading:
        """Return the same good values always."""
        return HostReading(
            memory_total_bytes=512 * _GIB,
            memory_available_bytes=400 * _GIB,
            disk_total_bytes=1_000 * _GIB,
            disk_free_bytes=600 * _GIB,
            shm_free_bytes=64 * _GIB,
            load_1m=4.0,
            cpu_count=64,
            uptime_s=86_400.0,
        )
