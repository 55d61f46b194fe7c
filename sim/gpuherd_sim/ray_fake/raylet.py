"""One raylet and the tasks on it. It lives on a host, apart from the agent that started it."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import GpuUuid, NodeName, RayNodeId
from gpuherd.ray import DrainReason

_SLACK = 1e-9


@dataclass(slots=True, kw_only=True, eq=False)
class Task:
    """One Ray task that holds ``resources`` for ``duration_s`` of running without interruption."""

    number: int
    resources: Mapping[str, float]
    duration_s: float
    attempts: int = 0
    is_finished: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class RayletProcess:
    """The raylet as a process: what it runs, whether it drains, whether it is stopped or gone.

    ``is_registered`` = it has told the head of itself. ``session`` is the head's session it belongs to.
    ``calls`` wait for a stopped one: it answers them when it goes on.
    """

    node: NodeName
    node_id: RayNodeId
    pid: int
    total: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    offered: tuple[GpuUuid, ...] = ()
    session: str = ""
    running: dict[int, Task] = field(default_factory=dict)
    drain_reason: DrainReason | None = None
    drain_deadline_s: float | None = None
    drain_message: str = ""
    idle_since: float = 0.0
    is_registered: bool = False
    is_stopped: bool = False
    stopped_at: float = 0.0
    is_stuck: bool = False
    """Some process of it is in state D: no signal ends it."""
    is_gone: bool = False
    calls: list[tuple[DrainReason, float | None, str]] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Say whether it holds a lease."""
        return bool(self.running)

    @property
    def takes_work(self) -> bool:
        """Say whether a task may be leased here now."""
        return self.is_registered and not self.is_gone and not self.is_stopped and self.drain_reason is None

    def available(self) -> dict[str, float]:
        """Return what is free of each resource."""
        free = dict(self.total)
        for task in self.running.values():
            for name, amount in task.resources.items():
                free[name] -= amount
        return free

    def fits(self, resources: Mapping[str, float]) -> bool:
        """Say whether these resources are free."""
        free = self.available()
        return all(free.get(name, 0.0) + _SLACK >= amount for name, amount in resources.items())

    def answer_drain(self, reason: DrainReason, deadline_s: float | None, message: str) -> bool:
        """Take or refuse a drain as a raylet does.

        IDLE_TERMINATION is refused by a busy one, unless it drains already: then it is taken and, as any
        second drain, replaces the first with its deadline.
        """
        if reason is DrainReason.IDLE_TERMINATION and self.is_busy and self.drain_reason is None:
            return False
        self.drain_reason, self.drain_deadline_s, self.drain_message = reason, deadline_s, message
        return True


_pids = itertools.count(10_000)


def next_pid() -> int:
    """Return a process id that no other simulated process has."""
    return next(_pids)
