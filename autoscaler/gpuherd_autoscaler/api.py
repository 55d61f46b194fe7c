"""The REST API ``/api/v1``: requests in, bodies out. What a request leads to is decided elsewhere."""

from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from gpuherd import __version__, rest
from gpuherd.errors import NotFound, Retryable, WireInvalid
from gpuherd.names import HoldId, NodeName, OperationId, parse_node
from gpuherd.rest import (
    CommandRequest,
    DrainRequest,
    JoinRequest,
    LeaveRequest,
    Operations,
    UndrainRequest,
)
from gpuherd.shell.http import answer, new_app, read_body
from gpuherd.shell.http_events import Feed, ServerEvent, end_on_shutdown, stream
from gpuherd.shell.http_peer import requester
from gpuherd_autoscaler.commander import Commander, CommandWish
from gpuherd_autoscaler.faces import Look, event_body, operation_body
from gpuherd_autoscaler.ledger import Event, OperationKind
from gpuherd_autoscaler.people import DrainWish, People

_PREFIX: Final = "/api/v1"
FEED_SIZE: Final = 5_000


class Version(rest.Body, frozen=True, kw_only=True):
    """GET /version."""

    version: str
    api: str = "v1"


class Api:
    """Handlers of the routes. ``look`` yields the present picture of the fleet."""

    def __init__(
        self, people: People, commander: Commander, look: Callable[[], Look], *, is_ready: Callable[[], str]
    ) -> None:
        self._people = people
        self._commander = commander
        self._look = look
        self._is_ready = is_ready
        self.feed = Feed(size=FEED_SIZE)

    def put(self, event: Event) -> None:
        """Let event streams send this event."""
        body = event_body(event)
        self.feed.put(ServerEvent(id=event.id, kind=body.kind, data=msgspec.json.encode(body)))

    def app(self, *others: web.RouteDef) -> web.Application:
        """Return the application with all routes, and ``others`` beside them."""
        made = new_app([*self.routes(), *others])
        end_on_shutdown(made, self.feed)
        return made

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the API and of liveness."""
        return [
            web.get("/livez", self.livez),
            web.get("/readyz", self.readyz),
            web.get(f"{_PREFIX}/version", self.version),
            web.get(f"{_PREFIX}/fleet", self.fleet),
            web.get(f"{_PREFIX}/nodes", self.nodes),
            web.get(f"{_PREFIX}/nodes/{{name}}", self.node),
            web.post(f"{_PREFIX}/nodes/{{name}}:drain", self.drain),
            web.post(f"{_PREFIX}/nodes/{{name}}:undrain", self.undrain),
            web.post(f"{_PREFIX}/nodes/{{name}}:leave", self.leave),
            web.post(f"{_PREFIX}/nodes/{{name}}:join", self.join),
            web.post(f"{_PREFIX}/nodes/{{name}}/commands", self.command),
            web.get(f"{_PREFIX}/nodes/{{name}}/gpus", self.gpus),
            web.get(f"{_PREFIX}/gpus", self.all_gpus),
            web.get(f"{_PREFIX}/operations", self.operations),
            web.get(f"{_PREFIX}/operations/{{id}}", self.operation),
            web.get(f"{_PREFIX}/events", self.events),
        ]

    async def livez(self, request: web.Request) -> web.Response:
        """Answer: the process turns."""
        del request
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """Answer 200 when decisions are made and can be recorded, 503 with the reason otherwise."""
        del request
        if why := self._is_ready():
            raise Retryable(why)
        return web.Response(text="ok\n")

    async def version(self, request: web.Request) -> web.Response:
        """Answer with what runs here."""
        del request
        return answer(Version(version=__version__))

    async def fleet(self, request: web.Request) -> web.Response:
        """Answer with one screen of facts."""
        del request
        return answer(self._look().fleet())

    async def nodes(self, request: web.Request) -> web.Response:
        """Answer with every expected node."""
        del request
        return answer(rest.Nodes(nodes=self._look().nodes()))

    async def node(self, request: web.Request) -> web.Response:
        """Answer with one node."""
        return answer(self._look().node(_node(request)))

    async def drain(self, request: web.Request) -> web.Response:
        """Drain a node (202 and the operation), or say what that would do (200 and a preview)."""
        return self._take_out(request, await read_body(request, DrainRequest), OperationKind.DRAIN)

    async def leave(self, request: web.Request) -> web.Response:
        """Let a node leave Ray and stay outside; answers as ``drain``."""
        return self._take_out(request, await read_body(request, LeaveRequest), OperationKind.LEAVE)

    def _take_out(self, request: web.Request, body: DrainRequest, kind: OperationKind) -> web.Response:
        name = _node(request)
        wish = DrainWish(
            node=name,
            by=requester(request, body.by),
            kind=kind,
            reason=body.reason,
            for_s=body.for_s,
            on_deadline=body.on_deadline,
            request_key=_key(request),
        )
        if body.dry_run:
            hold = self._people.hold(wish, OperationId("preview"))
            return answer(self._look().preview(name, hold.reason, hold.for_s, hold.on_deadline.value))
        return answer(operation_body(self._people.drain(wish)), status=202)

    async def join(self, request: web.Request) -> web.Response:
        """Let a node serve, whatever stood (202 and the operation that follows it until it does)."""
        name = _node(request)
        body = await read_body(request, JoinRequest)
        operation = self._people.join(
            name, requester(request, body.by), reason=body.reason, request_key=_key(request)
        )
        return answer(operation_body(operation), status=202)

    async def undrain(self, request: web.Request) -> web.Response:
        """Lift holds of a node (202 and the operation)."""
        name = _node(request)
        body = await read_body(request, UndrainRequest)
        operation = self._people.undrain(
            name, requester(request, body.by), only=HoldId(body.hold) or None, request_key=_key(request)
        )
        return answer(operation_body(operation), status=202)

    async def command(self, request: web.Request) -> web.Response:
        """Let a node's agent do something once (202 and the operation that follows its answers)."""
        name = _node(request)
        body = await read_body(request, CommandRequest)
        wish = CommandWish(
            node=name,
            verb=body.verb,
            arguments=body.arguments,
            by=requester(request, body.by),
            reason=body.reason,
            timeout_s=body.timeout_s,
            request_key=_key(request),
        )
        return answer(operation_body(self._commander.command(wish)), status=202)

    async def gpus(self, request: web.Request) -> web.Response:
        """Answer with the GPUs of one node."""
        return answer(rest.Gpus(gpus=self._look().gpus(_node(request))))

    async def all_gpus(self, request: web.Request) -> web.Response:
        """Answer with every GPU of the fleet."""
        del request
        return answer(rest.Gpus(gpus=self._look().all_gpus()))

    async def operations(self, request: web.Request) -> web.Response:
        """Answer with the newest operations; ``?open=1`` = only those without an end."""
        found = self._people.operations(only_open=request.query.get("open") == "1")
        return answer(Operations(operations=tuple(operation_body(o) for o in found)))

    async def operation(self, request: web.Request) -> web.Response:
        """Answer with one operation."""
        found = self._people.operation(OperationId(request.match_info["id"]))
        return answer(operation_body(found))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send events as they come, first those after Last-Event-ID."""
        return await stream(request, self.feed)


def _node(request: web.Request) -> NodeName:
    """Return the path's node; a name outside the grammar names no node either."""
    text = request.match_info["name"]
    if len(text) > rest.NAME_MAX:
        raise NotFound(f"node {text[:40]!r}... is in no pool")
    return parse_node(text)


def _key(request: web.Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > rest.NAME_MAX:
        raise WireInvalid("fields", f"Idempotency-Key is longer than {rest.NAME_MAX}")
    return key
