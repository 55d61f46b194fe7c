"""Which GPUs the probe leaves out since their calls hang, and when each is tried again. Pure.

One bad GPU must not blind the others: the child that hung is given up, the next one does not touch that
GPU, and a short-lived child of its own tries it again later. An index names the GPU here, since a GPU that
hangs cannot tell its UUID; when the driver counts otherwise the indexes have moved, and all are tried.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.names import GpuUuid
from gpuherd_agent.readings import HungGpu, ProbeProcess
from gpuherd_agent.sensors.backend import HOST
from gpuherd_agent.sensors.probe_settings import ProbeSettings

IN_A_ROW: Final = 2
"""So many GPUs may hang one after another without an answer between; the next one means the driver."""
_BLAME_RATIO: Final = 0.5
WAKES: Final = "nvmlDeviceGetHandleByIndex_v2"
"""Takes seconds in a fresh process when the GPU has no other client: the driver wakes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``call`` was entered at ``since`` for the GPU at ``index``; HOST = for none.

    ``turned_at`` is when the child began with that GPU. Both are CLOCK_MONOTONIC seconds. An empty call =
    the child is in none: it starts, waits for a request, or answers.
    """

    since: float
    turned_at: float = 0.0
    index: int = HOST
    call: str = ""

    def is_hung(self, now: float, settings: ProbeSettings) -> bool:
        """Say of a fresh child whether it hangs in a GPU already, before the time for its start is over."""
        limit_s = settings.wake_deadline_s if self.call == WAKES else settings.deadline_s
        return bool(self.call) and self.index >= 0 and now - self.since >= limit_s

    def blames_gpu(self, now: float, deadline_s: float) -> bool:
        """Say whether this one GPU took most of the time, in one call or in many slow ones."""
        return bool(self.call) and self.index >= 0 and now - self.turned_at >= _BLAME_RATIO * deadline_s


@dataclass(frozen=True, slots=True)
class _Aside:
    """A GPU that is left out. ``tries`` failed so far; the next one is due at ``due``."""

    hung: HungGpu
    tries: int
    due: float
    is_stuck: bool = False


class Isolation:
    """Feed hangs and answers in; ask which GPUs to leave out and which to try."""

    def __init__(self, *, pause_s: float, pause_max_s: float) -> None:
        """``pause_s`` goes by before a GPU is tried again; it doubles with each try up to ``pause_max_s``."""
        self._pause_s = pause_s
        self._pause_max_s = pause_max_s
        self._aside: dict[int, _Aside] = {}
        self._let_in: dict[int, tuple[int, float]] = {}
        self._counted: int | None = None
        self._row = 0

    @property
    def skip(self) -> tuple[int, ...]:
        """Return the indexes to leave out, in order."""
        return tuple(sorted(self._aside))

    @property
    def hung(self) -> tuple[HungGpu, ...]:
        """Return what is left out, with its witnesses."""
        return tuple(self._aside[index].hung for index in self.skip)

    def hangs(self, place: Place, gpu: GpuUuid | None, now: float) -> bool:
        """Take note that a GPU hung the child of all; False = too many in a row for it to be the GPU.

        A GPU that was let in again and hangs soon after waits longer than before.
        """
        self._row += 1
        if self._row > IN_A_ROW:
            return False
        tries, let_in_at = self._let_in.pop(place.index, (0, float("-inf")))
        tries = tries if now - let_in_at <= self._pause_max_s else 0
        hung = HungGpu(index=place.index, gpu=gpu, call=place.call)
        self._aside[place.index] = _Aside(hung, tries, now + self._pause(tries))
        return True

    def answers(self, counted: int | None) -> None:
        """Take note that the child of all GPUs answered; another count than before lets every GPU in."""
        self._row = 0
        if self._counted is not None and counted != self._counted:
            self._aside.clear()
            self._let_in.clear()
        self._counted = counted

    def inherits(self, process: ProbeProcess, now: float) -> None:
        """Take note of a child of an earlier run of the agent that still sits in a GPU."""
        if process.index is not None and process.index >= 0:
            hung = HungGpu(index=process.index, gpu=process.gpu, call=process.call)
            self._aside[process.index] = _Aside(hung, 0, now + self._pause(0))
            self.sits_on(process.index)

    def sits_on(self, index: int) -> None:
        """Take note that a child that cannot be ended still sits in this GPU: as good as a second hang."""
        aside = self._aside.get(index)
        if aside is not None and not aside.is_stuck:
            hung = replace(aside.hung, missed=aside.hung.missed + 1)
            self._aside[index] = replace(aside, hung=hung, is_stuck=True)

    def due(self, now: float, occupied: Collection[int]) -> int | None:
        """Return a GPU to try now. One in which a child still sits is not: a second would hang as well.

        Once a child that could not be ended has gone, the driver has let go, and nothing is waited for.
        """
        free = {i: aside for i, aside in self._aside.items() if i not in occupied}
        ready = [i for i, aside in free.items() if aside.is_stuck or aside.due <= now]
        return min(ready, key=lambda index: self._aside[index].due, default=None)

    def failed(self, index: int, now: float, *, call: str = "") -> None:
        """Take note of a try without an answer; ``call`` is where it hung, empty = it ended otherwise."""
        aside = self._aside.get(index)
        if aside is None:
            return
        hung = replace(aside.hung, call=call, missed=aside.hung.missed + 1) if call else aside.hung
        tries = min(aside.tries + 1, 30)
        self._aside[index] = _Aside(hung, tries, now + self._pause(tries), is_stuck=False)

    def passed(self, index: int, now: float) -> None:
        """Let a GPU in again that has answered."""
        aside = self._aside.pop(index, None)
        if aside is not None:
            self._let_in[index] = (aside.tries + 1, now)

    def _pause(self, tries: int) -> float:
        return float(min(self._pause_s * 2.0**tries, self._pause_max_s))
