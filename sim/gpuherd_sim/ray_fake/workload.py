"""The driver of a job and Ray's placing of its tasks: first fit, and again when a raylet is lost."""

from collections import Counter
from collections.abc import Callable, Mapping

from gpuherd.ray import Shape
from gpuherd_sim.journal import Journal
from gpuherd_sim.ray_fake.raylet import RayletProcess, Task

Later = Callable[..., None]
"""Call with (delay in seconds, function, arguments) to have it done in the world."""


class Workload:
    """All tasks ever submitted. A lost one is submitted again, as by a driver with endless retries."""

    def __init__(
        self,
        journal: Journal,
        later: Later,
        *,
        lease_s: float,
        open_raylets: Callable[[], list[RayletProcess]],
        on_task_over: Callable[[RayletProcess], None],
    ) -> None:
        """Place tasks on what ``open_raylets`` returns; tell ``on_task_over`` where one has just ended."""
        self.tasks: list[Task] = []
        self._pending: list[Task] = []
        self._journal = journal
        self._later = later
        self._lease_s = lease_s
        self._on_task_over = on_task_over
        self._placing = False
        self._open = open_raylets

    @property
    def is_finished(self) -> bool:
        """Say whether every task has finished."""
        return all(task.is_finished for task in self.tasks)

    def submit(
        self, count: int, *, duration_s: float, resources: Mapping[str, float] | None = None
    ) -> list[Task]:
        """Submit tasks that need ``resources`` (one GPU by default) for ``duration_s`` each."""
        made = [
            Task(number=len(self.tasks) + i, resources=resources or {"GPU": 1.0}, duration_s=duration_s)
            for i in range(count)
        ]
        self.tasks.extend(made)
        self._pending.extend(made)
        self.place_soon()
        return made

    def shapes(self) -> tuple[Shape, ...]:
        """Return what waits, equal requests counted."""
        counted = Counter(tuple(sorted(task.resources.items())) for task in self._pending)
        return tuple(Shape(resources=shape, count=n) for shape, n in sorted(counted.items()))

    def lose(self, raylet: RayletProcess, cause: str) -> None:
        """Take back what ran on a raylet that is gone."""
        for task in raylet.running.values():
            self._journal.add("task.lost", raylet.node, task=task.number, cause=cause)
            self._pending.append(task)
        raylet.running.clear()
        self.place_soon()

    def place_soon(self) -> None:
        """Look for room once a lease's time has passed."""
        if not self._placing:
            self._placing = True
            self._later(self._lease_s, self._place)

    def _place(self) -> None:
        self._placing = False
        raylets = self._open()
        hopeless: set[tuple[tuple[str, float], ...]] = set()
        waiting, self._pending = self._pending, []
        for task in waiting:
            shape = tuple(sorted(task.resources.items()))
            fitting = (r for r in raylets if r.fits(task.resources))
            chosen = None if shape in hopeless else next(fitting, None)
            if chosen is None:
                hopeless.add(shape)
                self._pending.append(task)
            else:
                self._lease(task, chosen)

    def _lease(self, task: Task, raylet: RayletProcess) -> None:
        task.attempts += 1
        raylet.running[task.number] = task
        self._journal.add("task.started", raylet.node, task=task.number)
        self._later(task.duration_s, self._over, task, task.attempts, raylet)

    def _over(self, task: Task, attempt: int, raylet: RayletProcess) -> None:
        if task.attempts != attempt or task.number not in raylet.running:
            return
        del raylet.running[task.number]
        task.is_finished = True
        self._journal.add("task.finished", raylet.node, task=task.number)
        self._on_task_over(raylet)
        self.place_soon()
