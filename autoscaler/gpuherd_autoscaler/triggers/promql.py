"""A trigger by Prometheus: an expression that gives one number."""

from gpuherd_autoscaler.triggers.fetch import Fetcher
from gpuherd_autoscaler.triggers.kinds import Source, Surroundings
from gpuherd_autoscaler.triggers.numbers import number, one_sample
from gpuherd_autoscaler.triggers.settings import Trigger


class PromqlSource:
    """Asks ``/api/v1/query``."""

    def __init__(self, trigger: Trigger) -> None:
        self._url = trigger.url.rstrip("/") + "/api/v1/query"
        self._query = trigger.query
        self._fetcher = Fetcher(trigger.token)

    async def read(self) -> float:
        """Return the number; raises TriggerMissing."""
        return number(one_sample(await self._fetcher.get(self._url, {"query": self._query})))

    async def close(self) -> None:
        """Close the connection."""
        await self._fetcher.close()


def make(trigger: Trigger, around: Surroundings) -> Source:
    """Return the source of one trigger."""
    del around
    return PromqlSource(trigger)
