"""An event loop on virtual time: hours pass in milliseconds, and one seed gives one run.

Time moves only when nothing is ready, and then exactly to the next timer. Nothing here reads a real clock,
waits for a socket or starts a thread; work handed to an executor runs at once, on the spot.
"""

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from gpuherd_sim.process import OWNER, Process

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION_S: Final = 1e-9
_BURIAL_TURNS: Final = 1_000
WALL_AT_START: Final = 1_780_000_000.0
"""Wall-clock seconds at virtual time 0: some instant of 2026, so that documents look real."""


class Deadlock(RuntimeError):
    """Every task waits and no timer is set: nothing can ever happen again."""


class TimeOver(RuntimeError):
    """The run did not end by itself within its virtual time."""


class RunFailed(RuntimeError):
    """Something ended with an exception that nobody asked for; the first one is the cause."""


class _Wait:
    """Stands where the selector would be: waiting means to move the clock to the next timer."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        """Move time instead of waiting; raises Deadlock when there is nothing to wait for."""
        if timeout is None:
            raise Deadlock(self._loop.describe_waiting())
        if timeout > 0:
            self._loop.advance()
        return ()


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's scheduling over a clock of our own. Handles of a frozen process are parked, not run."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._selector = _Wait(self)
        self._clock_resolution = _RESOLUTION_S
        self._until_s: float | None = None
        self.processes: list[Process] = []
        """Every process ever started here, so that what a killed one left unfinished is not collected
        (that would run its clean-up) before the run is over."""
        self.set_task_factory(_create_task)

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._virtual_now

    def advance(self) -> None:
        """Move the clock to the next timer; raises TimeOver when that lies beyond the limit."""
        due = self._scheduled[0].when()  # type: ignore[attr-defined]  # heap of BaseEventLoop
        if self._until_s is not None and due > self._until_s:
            raise TimeOver(f"not finished at {self._until_s:.0f} s; {self.describe_waiting()}")
        self._virtual_now = max(self._virtual_now, due)

    def limit(self, until_s: float | None) -> None:
        """Let no timer after ``until_s`` fire (None = no limit)."""
        self._until_s = until_s

    def describe_waiting(self) -> str:
        """Name the tasks that wait, for the error that ends a run."""
        names = sorted(task.get_name() for task in asyncio.all_tasks(self))
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")  # noqa: PLR2004
        return f"virtual time {self._virtual_now:.3f} s, {len(names)} tasks wait: {shown}"

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run on this turn, or when its process is let go on."""
        owner = _owner(context)
        if owner is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(owner.enter, callback, args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run at ``when``, or later when its process is let go on."""
        owner = _owner(context)
        made = (
            _Timer(when, callback, args, self, context)
            if owner is None
            else _Timer(when, owner.enter, (callback, args), self, context)
        )
        heapq.heappush(self._scheduled, made)  # type: ignore[attr-defined]  # heap of BaseEventLoop
        made._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001  # so that a cancelled one is swept from that heap
        return made

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run ``func`` on the spot: a thread would bring real time in."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: object) -> None:
        """Nothing: no descriptor is ever watched."""

    def _write_to_self(self) -> None:
        """Nothing: there is no other thread to wake us from."""


class _Timer(asyncio.TimerHandle):
    """A timer that comes after those of the same instant that were set before it."""

    _numbers = itertools.count()

    def __init__(self, *args: Any) -> None:  # noqa: ANN401  # asyncio's own arguments
        super().__init__(*args)
        self._number = next(self._numbers)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return (self.when(), self._number) < (other.when(), other._number)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set depends on its number, not on its address: runs repeat exactly."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # asyncio's own arguments
        self._number = next(self._numbers)  # first, since asyncio puts the task into a set while making it
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _create_task(
    loop: asyncio.AbstractEventLoop,
    coro: Any,  # noqa: ANN401  # generator or coroutine, as asyncio says
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    task = _Task(coro, loop=loop, context=context)
    owner = _owner(context)
    if owner is not None:
        owner.adopt(task)
    return task


def _owner(context: contextvars.Context | None) -> Process | None:
    return OWNER.get(None) if context is None else context.get(OWNER)


class VirtualClock:
    """``gpuherd.shell.clock.Clock`` over a VirtualLoop. Each host may have its own wall skew and boot."""

    def __init__(self, loop: VirtualLoop, *, wall_skew_s: float = 0.0) -> None:
        self._loop = loop
        self.wall_skew_s = wall_skew_s
        """Added to the true wall clock; may be changed during a run (a clock jump)."""
        self.booted_at = -3_600.0
        """Virtual time of this host's boot; set it to ``now()`` for a reboot."""

    def now(self) -> float:
        """Return virtual seconds."""
        return self._loop.time()

    def boot_s(self) -> float:
        """Return seconds since this host's boot."""
        return self._loop.time() - self.booted_at

    def wall(self) -> float:
        """Return seconds of the epoch, with this host's skew."""
        return WALL_AT_START + self._loop.time() + self.wall_skew_s

    async def sleep_until(self, deadline: float) -> None:
        """Wait until virtual time has reached ``deadline``."""
        if deadline <= self._loop.time():
            await asyncio.sleep(0)
            return
        reached: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_at(deadline, _resolve, reached)
        try:
            await reached
        finally:
            timer.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], *, until_s: float) -> T:
    """Return what ``main`` returns; whatever else still runs then is ended.

    Judge a run inside ``main``: what is killed here afterwards does run its clean-up. Raises Deadlock,
    TimeOver, whatever ``main`` raises, and RunFailed when a background task ended with an exception.
    """
    loop = VirtualLoop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    loop.limit(until_s)
    try:
        result = loop.run_until_complete(main(loop))
        if failures:
            raise RunFailed(str(failures[0].get("message"))) from failures[0].get("exception")
        return result
    except (Deadlock, TimeOver) as error:
        if failures:
            raise RunFailed(str(failures[0].get("message"))) from failures[0].get("exception")
        raise error from None
    finally:
        _bury(loop)


def _bury(loop: VirtualLoop) -> None:
    """End every task that is left, killed ones too, and close the loop."""
    loop.limit(None)
    loop.set_exception_handler(lambda *_: None)
    for process in loop.processes:
        process.thaw()
    loop.run_until_complete(_end_all())
    loop.close()


async def _end_all() -> None:
    """Cancel until nothing is left. No time passes: a timer would start things anew."""
    for _ in range(_BURIAL_TURNS):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.sleep(0)
        for task in left:
            if task.done() and not task.cancelled():
                task.exception()
