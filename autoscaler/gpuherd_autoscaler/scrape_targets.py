"""What Prometheus should scrape: every expected node, whether it ever spoke or not.

A target that is listed and does not answer is ``up == 0``; one that is not listed cannot be missed.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web

from gpuherd.rest_prometheus import Scraping, TargetGroup
from gpuherd.shell.http import answer
from gpuherd_autoscaler.book import Herd

_PREFIX: Final = "/api/v1/prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTargets:
    """Routes. ``address`` is that of an agent's page with ``{node}`` in it, ``own`` that of ours."""

    herd: Herd
    address: str
    own: str = ""

    def groups(self) -> tuple[TargetGroup, ...]:
        """Return each expected node with its pool, by name."""
        return tuple(
            TargetGroup(
                targets=(self.address.replace("{node}", name),),
                labels={"cluster": self.herd.cluster, "pool": pool, "node": name},
            )
            for name, pool in sorted(self.herd.members.items())
        )

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get(_PREFIX, self.scraping), web.get(f"{_PREFIX}/targets", self.targets)]

    async def scraping(self, request: web.Request) -> web.Response:
        """Answer with what a scrape configuration is made of."""
        del request
        return answer(Scraping(cluster=self.herd.cluster, scaler=self.own, agents=self.groups()))

    async def targets(self, request: web.Request) -> web.Response:
        """Answer as Prometheus' HTTP service discovery wants it: the whole list, each time."""
        del request
        return web.Response(body=msgspec.json.encode(self.groups()), content_type="application/json")
