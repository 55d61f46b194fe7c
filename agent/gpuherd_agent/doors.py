"""What the agent needs of the world, as protocols: its loop knows these and no library.

Each is implemented once for real (sensors/, actuators/) and once in ``gpuherd_sim`` in virtual time.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuherd.errors import HerdError
from gpuherd.names import ClusterName, GpuUuid, NodeName, PoolName, RayNodeId
from gpuherd.ray import DrainAnswer, DrainReason, HeadVersions, RayNode
from gpuherd_agent.ground import Ground
from gpuherd_agent.readings import KernelReading, ProbeReading
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_agent.site_result import SiteReading
from gpuherd_agent.surroundings import MountsReading, PortsReading


class JoinFailed(HerdError):
    """The raylet did not come up; state afterwards: nothing of it runs any more."""

    def __init__(self, code: JoinRefusal, detail: str) -> None:
        super().__init__(f"{code.value}: {detail}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Raylet:
    """One raylet process that is ours. Pid and start time together name it over pid reuse.

    ``started_ticks`` is field 22 of /proc/PID/stat (clock ticks since boot). ``boot_id`` makes records
    of an earlier boot worthless. ``session_pid`` leads the process group that is ended with it.
    """

    pid: int
    started_ticks: int
    boot_id: str
    node_id: RayNodeId
    session_pid: int | None = None
    gpus: int = 0
    head: str = ""
    offered: tuple[GpuUuid, ...] = ()
    """The GPUs that Ray hands out here; empty = not known, so any may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process of a raylet that runs user code; pid and start together name it over pid reuse.

    ``title`` is what Ray calls it: ``ray::`` with a function, a class, or a class and the method that runs.
    """

    pid: int
    started_boot_s: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOrder:
    """What to start: ``gpus`` are the UUIDs to offer, all others stay hidden from Ray."""

    head: str
    node: NodeName
    gpus: tuple[GpuUuid, ...]
    node_id: RayNodeId
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOrder:
    """One DrainNode call for our own raylet. ``deadline_s`` None = none.

    ``pool`` and ``budget`` are set for a drain that must win a slot first.
    """

    head: str
    node_id: RayNodeId
    reason: DrainReason
    message: str
    deadline_s: float | None = None
    pool: PoolName | None = None
    budget: int = 0


class ProbeDoor(Protocol):
    """The GPU probe; a hung driver costs ``read`` its deadline and nothing else."""

    async def read(self) -> ProbeReading:
        """Return one cycle's reading within the deadline; a failure is an outcome, not an exception."""
        ...

    async def close(self) -> None:
        """End the child if it lets itself be ended."""
        ...


class RayletDoor(Protocol):
    """Starting, finding and stopping the raylet of this host."""

    def versions(self) -> HeadVersions:
        """Return the Ray and Python versions that a start would run; raises JoinFailed (RAY_MISSING)."""
        ...

    def ground(self) -> Ground:
        """Return what a raylet would find on this host now; a few milliseconds, and never raises."""
        ...

    async def find(self, remembered: Raylet | None) -> Raylet | None:
        """Return the running raylet that is ours: the remembered one, else one with our node name."""
        ...

    async def start(self, order: JoinOrder) -> Raylet:
        """Start a raylet and return it once its process runs; raises JoinFailed and leaves nothing."""
        ...

    def is_alive(self, raylet: Raylet) -> bool:
        """Say whether exactly this process still runs."""
        ...

    async def stop(self, raylet: Raylet, *, grace_s: float) -> bool:
        """End it: TERM, up to ``grace_s`` while processes do exit, then KILL. False = some would not die."""
        ...

    def work(self, raylet: Raylet) -> tuple[Worker, ...] | None:
        """Return the processes of its tree that run user code, None = not known."""
        ...

    def owns(self, raylet: Raylet, pid: int) -> bool:
        """Say whether a process belongs to this raylet's tree."""
        ...


class HeadDoor(Protocol):
    """Ray's head by the one-shot helper ``gpuherd-gcs``; every call has its own deadline."""

    async def versions(self, head: str) -> HeadVersions:
        """Return what the head runs; raises HeadUnreachable."""
        ...

    async def knock(self, head: str) -> bool:
        """Say whether the head's port takes a connection now; well below a second when it does."""
        ...

    async def node(self, head: str, node_id: RayNodeId) -> RayNode | None:
        """Return the node as the GCS lists it, None if it is not listed; raises HeadUnreachable."""
        ...

    async def drain(self, order: DrainOrder) -> DrainAnswer:
        """Win a slot if the order asks for one, then drain; what happened is the answer's outcome."""
        ...

    async def release(self, head: str, pool: PoolName) -> bool:
        """Free the slots that this node holds; False = the head could not be reached, try again."""
        ...


class KernelDoor(Protocol):
    """The kernel log."""

    @property
    def position(self) -> int:
        """Return where reading stopped; negative = nothing was read in this boot."""
        ...

    def read(self, now: float) -> KernelReading:
        """Return what came since the last look; never waits, never raises."""
        ...


class SmokeOutcome(enum.StrEnum):
    """What became of a GPU's smoke work."""

    PASSED = "passed"
    FAILED = "failed"
    """A call of the driver failed."""
    WRONG_DATA = "wrong_data"
    """The driver is content and what it computed or copied is wrong."""
    HUNG = "hung"
    UNAVAILABLE = "unavailable"
    """No CUDA library, or none that knows this GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoked:
    """The end of one GPU's smoke work; ``detail`` names the call and its code, or the first wrong word."""

    outcome: SmokeOutcome
    detail: str = ""


class SmokeDoor(Protocol):
    """Puts a GPU to a little work."""

    async def run(self, gpu: GpuUuid) -> Smoked:
        """Return what became of it within the deadline; a failure is an outcome, not an exception."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEnded:
    """How a hook ended; ``code`` None = not by itself."""

    code: int | None
    output: str = ""
    is_late: bool = False


class ChecksDoor(Protocol):
    """The site's checks."""

    @property
    def readings(self) -> tuple[SiteReading, ...]:
        """Return the last word of each."""
        ...

    async def run(self) -> None:
        """Make round after round until cancelled."""
        ...


class PortsDoor(Protocol):
    """The network ports."""

    @property
    def reading(self) -> PortsReading | None:
        """Return the last look, None before the first."""
        ...

    async def run(self) -> None:
        """Look again and again until cancelled."""
        ...


class MountsDoor(Protocol):
    """The mounts that must answer."""

    @property
    def reading(self) -> MountsReading | None:
        """Return the last round, None before the first."""
        ...

    async def run(self) -> None:
        """Make round after round until cancelled."""
        ...


class HooksDoor(Protocol):
    """The site's hooks."""

    async def run(self, name: str, facts: Mapping[str, str]) -> HookEnded | None:
        """Run one hook and return how it ended, None when the site has none of this name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this agent is. ``epoch`` is of this run; ``host`` tells two machines of one name apart."""

    cluster: ClusterName
    node: NodeName
    epoch: int
    host: str
    boot_id: str
