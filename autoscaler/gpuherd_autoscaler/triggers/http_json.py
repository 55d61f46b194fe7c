"""A trigger by any HTTP service: a number in its JSON answer."""

from gpuherd_autoscaler.triggers.fetch import Fetcher
from gpuherd_autoscaler.triggers.kinds import Source, Surroundings
from gpuherd_autoscaler.triggers.numbers import at_pointer, number
from gpuherd_autoscaler.triggers.settings import Trigger


class HttpSource:
    """GETs the url."""

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._fetcher = Fetcher(trigger.token)

    async def read(self) -> float:
        """Return the number; raises TriggerMissing."""
        return number(at_pointer(await self._fetcher.get(self._trigger.url), self._trigger.pointer))

    async def close(self) -> None:
        """Close the connection."""
        await self._fetcher.close()


def make(trigger: Trigger, around: Surroundings) -> Source:
    """Return the source of one trigger."""
    del around
    return HttpSource(trigger)
