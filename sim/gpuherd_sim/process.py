"""A simulated process: its tasks can be stopped, let go on, or killed between any two awaits.

A killed one is frozen for ever: no ``finally`` runs, no exception is seen, nothing is written. What other
parts of the world do when it dies (a kernel closing its connections) they register with ``at_death``.
"""

import asyncio
import contextvars
import enum
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpuherd_sim.virtual_time import VirtualLoop

OWNER: Final[contextvars.ContextVar["Process | None"]] = contextvars.ContextVar("OWNER")
"""The process that the running code belongs to; unset outside of any: the world itself."""


class Life(enum.StrEnum):
    """What becomes of the handles of a process."""

    RUNNING = "running"
    STOPPED = "stopped"
    """SIGSTOP: nothing of it runs until it is let go on."""
    KILLED = "killed"
    ENDED = "ended"
    """Its main coroutine returned or raised."""


class Process:
    """One life of one program. A restart is a new Process."""

    def __init__(
        self, loop: "VirtualLoop", name: str, main: Callable[[], Coroutine[Any, Any, object]]
    ) -> None:
        """Start ``main`` as a process of its own; its tasks and theirs belong to it."""
        self.name = name
        self.life = Life.RUNNING
        self._loop = loop
        self._parked: list[Callable[[], object]] = []
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._kept: tuple[asyncio.Task[Any], ...] = ()
        self._at_death: list[Callable[[], None]] = []
        context = contextvars.Context()
        context.run(OWNER.set, self)
        loop.processes.append(self)
        self._main = loop.create_task(self._live(main), name=name, context=context)
        self._main.add_done_callback(self._report, context=contextvars.Context())

    async def _live(self, main: Callable[[], Coroutine[Any, Any, object]]) -> object:
        try:
            return await main()
        finally:
            if self.life is Life.RUNNING:
                self._end(Life.ENDED)

    def _report(self, main: asyncio.Task[object]) -> None:
        """Tell the loop of a failure: it fails the whole run."""
        if not main.cancelled() and (error := main.exception()) is not None:
            self._loop.call_exception_handler(
                {"message": f"process {self.name}: {error!r}", "exception": error}
            )

    @property
    def is_running(self) -> bool:
        """Say whether it exists: a stopped one does."""
        return self.life in (Life.RUNNING, Life.STOPPED)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task among this process's."""
        self._tasks.add(task)

    def at_death(self, call: Callable[[], None]) -> None:
        """Call back when it is killed or has ended; at once when it has already."""
        if self.is_running:
            self._at_death.append(call)
        else:
            call()

    def stop(self) -> None:
        """Freeze it, as SIGSTOP does."""
        if self.life is Life.RUNNING:
            self.life = Life.STOPPED

    def resume(self) -> None:
        """Let a stopped one go on, as SIGCONT does; what was due meanwhile happens now, in its order."""
        if self.life is Life.STOPPED:
            self.life = Life.RUNNING
            self._release()

    def kill(self) -> None:
        """End it as SIGKILL does. Harmless on one that is gone."""
        if self.is_running:
            self._kept = tuple(self._tasks)
            self._end(Life.KILLED)

    def thaw(self) -> None:
        """Let a killed one run again, only so that its tasks can be ended once the run is over."""
        self.life = Life.ENDED
        self._release()

    def enter(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Run one callback of this process, or park it while the process is frozen."""
        if self.life in (Life.RUNNING, Life.ENDED):
            callback(*args)
            return
        context = contextvars.copy_context()
        self._parked.append(lambda: context.run(callback, *args))

    def _release(self) -> None:
        parked, self._parked = self._parked, []
        for call in parked:
            self._loop.call_soon(call, context=contextvars.Context())

    def _end(self, life: Life) -> None:
        self.life = life
        calls, self._at_death = self._at_death, []
        for call in calls:
            contextvars.Context().run(call)


def current() -> Process | None:
    """Return the process that the running code belongs to; None in the world itself."""
    return OWNER.get(None)
