"""Reads every trigger at its own pace, each in a task of its own, and keeps the last word of each."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_autoscaler.snapshot import Freshness, Sourced
from gpuherd_autoscaler.triggers.kinds import Source, Surroundings, TriggerMissing, make
from gpuherd_autoscaler.triggers.numbers import nodes
from gpuherd_autoscaler.triggers.settings import Trigger
from gpuherd_autoscaler.windows import Window

log = logs.get("gpuherd.autoscaler")

_STALE_PERIODS: Final = 3.0
"""A last word older than so many periods, though no reading failed: its task is starved or stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    trigger: Trigger
    source: Source


class Watch:
    """Make it from the settings, then ``run`` it; ``readings`` never waits."""

    def __init__(
        self,
        triggers: Sequence[Trigger],
        windows: Sequence[Window],
        clock: Clock,
        *,
        on_news: Callable[[], None],
    ) -> None:
        """Make every source; raises ConfigInvalid for a kind that is none."""
        around = Surroundings(clock=clock, windows=windows)
        self._watched = [
            _Watched(trigger=one, source=make(one.kind, f"trigger[{i}].kind")(one, around))
            for i, one in enumerate(triggers)
        ]
        self._clock = clock
        self._on_news = on_news
        self._last: dict[str, Sourced[int]] = {}

    def readings(self, now: float) -> Mapping[str, Sourced[int]]:
        """Return the last word of each trigger and what it is worth now."""
        return {
            one.trigger.name: _aged(self._last[one.trigger.name], one.trigger, now)
            for one in self._watched
            if one.trigger.name in self._last
        }

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for one in self._watched:
                    group.create_task(self._follow(one))
                group.create_task(asyncio.Event().wait())  # without triggers there is nothing to wait for
        finally:
            for one in self._watched:
                await one.source.close()

    async def _follow(self, one: _Watched) -> None:
        while True:
            began = self._clock.now()
            self._keep(one.trigger, await self._read(one))
            await self._clock.sleep_until(began + one.trigger.period_s)

    async def _read(self, one: _Watched) -> Sourced[int]:
        try:
            async with asyncio.timeout(one.trigger.deadline_s):
                value = await one.source.read()
        except TriggerMissing as why:
            return Sourced(error=str(why))
        except TimeoutError:
            return Sourced(error=f"no answer within {one.trigger.deadline_s:g} s")
        except Exception as error:  # noqa: BLE001  a source of somebody else must not end the others
            return Sourced(error=f"{type(error).__name__}: {error}"[:300])
        wanted = nodes(value, one.trigger.per_node)
        return Sourced(value=wanted, freshness=Freshness.FRESH, read_at=self._clock.now())

    def _keep(self, trigger: Trigger, reading: Sourced[int]) -> None:
        before = self._last.get(trigger.name)
        if reading.freshness is Freshness.FRESH:
            if before is not None and before.freshness is not Freshness.FRESH:
                log.info("trigger.recovered", trigger=trigger.name, nodes=reading.value)
            self._last[trigger.name] = reading
        else:
            if before is None or before.freshness is Freshness.FRESH:
                log.warning("trigger.missing", trigger=trigger.name, why=reading.error)
            kept = before or Sourced()
            self._last[trigger.name] = replace(kept, freshness=Freshness.FAILED, error=reading.error)
        if before is None or before.value != self._last[trigger.name].value:
            self._on_news()


def _aged(reading: Sourced[int], trigger: Trigger, now: float) -> Sourced[int]:
    is_old = reading.read_at is not None and now - reading.read_at > _STALE_PERIODS * trigger.period_s
    if reading.freshness is Freshness.FRESH and is_old:
        return replace(reading, freshness=Freshness.STALE, error="its last reading is too old")
    return reading
