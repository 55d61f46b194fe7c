"""The agent's HTTP page: ``/metrics``, ``/livez``, ``/readyz``, ``/v1/fleet``. A request reads what is known.

Nothing here changes the node, and nothing here calls the driver, so that a scraper can do no harm.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from gpuherd.exposition import CONTENT_TYPE
from gpuherd.gossip_rest import SeenFleet
from gpuherd.shell.http import answer, new_app
from gpuherd_agent.exporter import NodeFacts, Page
from gpuherd_agent.readings import ProbeOutcome

_FINE: Final = "ok\n"

ReadFleet = Callable[[], SeenFleet]

WhyNot = Callable[[], str]
"""Return what is wrong, or an empty string when nothing is."""


def new_agent_app(
    read: Callable[[], NodeFacts], *, why_not_live: WhyNot, fleet: ReadFleet | None = None
) -> web.Application:
    """Return the application over ``read``, which hands out the facts of the last tick.

    The page is rendered once for each new object that ``read`` returns. ``why_not_live`` speaks for the
    agent's loop: not live means that a restart would help. ``fleet`` is None where gossip is off.
    """
    page = Page()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=page.read(read()), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    async def livez(_: web.Request) -> web.Response:
        return _answer(why_not_live())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(why_not_live() or why_not_ready(read()))

    async def read_fleet(_: web.Request) -> web.Response:
        if fleet is None:
            raise web.HTTPNotFound(text="gossip is off on this node: set gossip.enabled in agent.toml")
        return answer(fleet())

    return new_app(
        [
            *(web.get("/metrics", metrics), web.get("/livez", livez), web.get("/readyz", readyz)),
            web.get("/v1/fleet", read_fleet),
        ],
    )


def why_not_ready(facts: NodeFacts) -> str:
    """Return why the agent cannot speak for its node yet: before its first look at the GPUs.

    A sick node's agent is ready, and so is one without a broker.
    """
    if facts.snapshot is None:
        return "no tick yet"
    probe = facts.snapshot.probe
    if probe is None or probe.outcome is ProbeOutcome.STARTING:
        return "the GPU probe has not answered yet"
    return ""


def _answer(why_not: str) -> web.Response:
    if why_not:
        return web.Response(text=f"{why_not}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
    return web.Response(text=_FINE)
