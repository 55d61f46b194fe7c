"""Routes of the REST API by which people steer the whole herd: mode, lead, pause, size of a pool."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gpuherd import rest
from gpuherd.errors import NotFound
from gpuherd.rest import ModeRequest, PauseRequest, PromoteRequest, ResumeRequest, ScaleRequest
from gpuherd.shell import logs
from gpuherd.shell.http import answer, read_body
from gpuherd.shell.http_peer import requester
from gpuherd_autoscaler.faces import Look, wishes_body
from gpuherd_autoscaler.steering import Steering

log = logs.get("gpuherd.autoscaler")

_PREFIX: Final = "/api/v1"


class Mode(rest.Body, frozen=True, kw_only=True):
    """Answer to POST /scaler:mode: the mode that stands now."""

    mode: str


@dataclass(frozen=True, slots=True)
class SteeringApi:
    """Handlers of the routes. ``lead`` makes this scaler take the lead at its next turn."""

    steering: Steering
    look: Callable[[], Look]
    lead: Callable[[], None]
    on_news: Callable[[], None]
    """Called when something was set, so that the next decision comes soon."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post(f"{_PREFIX}/scaler:mode", self.mode),
            web.post(f"{_PREFIX}/scaler:promote", self.promote),
            web.post(f"{_PREFIX}/scaler:pause", self.pause),
            web.post(f"{_PREFIX}/scaler:resume", self.resume),
            web.post(f"{_PREFIX}/pools/{{name}}:scale", self.scale),
        ]

    async def mode(self, request: web.Request) -> web.Response:
        """Arm or disarm the scaler."""
        body = await read_body(request, ModeRequest)
        mode = self.steering.set_mode(body.mode, requester(request, body.by))
        self.on_news()
        return answer(Mode(mode=mode.value))

    async def promote(self, request: web.Request) -> web.Response:
        """Let this scaler take the lead at its next turn."""
        body = await read_body(request, PromoteRequest)
        log.warning("lead.promoted", by=requester(request, body.by))
        self.lead()
        return answer(self.look().fleet())

    async def pause(self, request: web.Request) -> web.Response:
        """Carry out no plan for a time; answers with all that people have set."""
        body = await read_body(request, PauseRequest)
        wishes = self.steering.pause(requester(request, body.by), for_s=body.for_s, reason=body.reason)
        return answer(wishes_body(wishes))

    async def resume(self, request: web.Request) -> web.Response:
        """End the pause; answers as ``pause``."""
        body = await read_body(request, ResumeRequest)
        wishes = self.steering.resume(requester(request, body.by))
        self.on_news()
        return answer(wishes_body(wishes))

    async def scale(self, request: web.Request) -> web.Response:
        """Set the size of a pool for a time, or let it follow demand again; answers as ``pause``."""
        name = request.match_info["name"]
        if len(name) > rest.NAME_MAX:
            raise NotFound(f"pool {name[:40]!r}... is none")
        body = await read_body(request, ScaleRequest)
        by = requester(request, body.by)
        wishes = self.steering.scale(name, body.nodes, by, for_s=body.for_s, reason=body.reason)
        self.on_news()
        return answer(wishes_body(wishes))
