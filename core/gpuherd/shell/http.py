"""The HTTP applications of both daemons: bodies, problems and headers. Routes are the caller's.

Bodies are JSON within the bounds of ``wire.codec``. Compressed ones are refused, not expanded.
"""

import asyncio
import re
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gpuherd.errors import HerdError, WireInvalid
from gpuherd.names import NameInvalid
from gpuherd.problems import http_problem, problem_of
from gpuherd.rest import Body, Problem
from gpuherd.wire.codec import MAX_BYTES, parse

BODY_TIMEOUT_S: Final = 5.0
_REQUEST_ID: Final = "X-Request-Id"
_ID_GRAMMAR: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID: Final = web.RequestKey("request_id", str)

B = TypeVar("B", bound=Body)


def new_app(routes: Iterable[web.AbstractRouteDef]) -> web.Application:
    """Return an application that answers every error raised on purpose with a problem.

    An unforeseen exception becomes a plain 500 and a log line with its traceback.
    """
    app = web.Application(client_max_size=MAX_BYTES, middlewares=[_identify, _explain])
    app.add_routes(routes)
    app.on_response_prepare.append(_finish_headers)
    return app


async def read_body(request: web.Request, kind: type[B]) -> B:
    """Return the request's body; an empty one counts as ``{}``.

    Raises WireInvalid, or what the HTTP layer says of a compressed, oversize or slow body.
    """
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise web.HTTPUnsupportedMediaType(text="send the body uncompressed")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            payload = await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"no whole body within {BODY_TIMEOUT_S:.0f} s") from error
    parsed = parse(payload or b"{}")
    try:
        return msgspec.convert(parsed, kind, strict=True)
    except msgspec.ValidationError as error:
        raise WireInvalid("fields", str(error)[:200]) from error


def answer(body: Body, *, status: int = HTTPStatus.OK) -> web.Response:
    """Return the body as JSON."""
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


def answer_problem(problem: Problem) -> web.Response:
    """Return the problem under its own status."""
    return web.Response(
        body=msgspec.json.encode(problem), status=problem.status, content_type="application/problem+json"
    )


def request_id(request: web.Request) -> str:
    """Return the id under which this request is logged and audited; it is also in the answer."""
    return request[_ID]


@web.middleware
async def _identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    given = request.headers.get(_REQUEST_ID, "")
    request[_ID] = given if _ID_GRAMMAR.fullmatch(given) else secrets.token_hex(8)
    return await handler(request)


@web.middleware
async def _explain(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (HerdError, NameInvalid) as error:
        return answer_problem(problem_of(error))
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        refusal = answer_problem(http_problem(error.status, error.text or error.reason))
        if hdrs.ALLOW in error.headers:
            refusal.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
        return refusal


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    """The Server header would tell which versions to attack."""
    response.headers.pop(hdrs.SERVER, None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    if _ID in request:
        response.headers[_REQUEST_ID] = request[_ID]
