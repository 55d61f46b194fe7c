"""The HTTP applications over real sockets."""

import asyncio
import contextlib
import json
import os
import pwd
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.kit.broker import until

from gpuherd.errors import ConfigInvalid, NotFound
from gpuherd.rest import Body
from gpuherd.shell.http import answer, new_app, read_body, request_id
from gpuherd.shell.http_events import Feed, ServerEvent, end_on_shutdown, stream
from gpuherd.shell.http_listen import Tcp, Unix, serving
from gpuherd.shell.http_peer import peer_user


class Words(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    said: str = "nothing"
    by: str = ""


async def say(request: web.Request) -> web.Response:
    words = await read_body(request, Words)
    return answer(Words(said=words.said, by=peer_user(request) or "someone"))


async def missing(request: web.Request) -> web.Response:
    raise NotFound(f"no node {request.match_info['name']!r} (request {request_id(request)})")


def app() -> web.Application:
    return new_app([web.post("/say", say), web.get("/nodes/{name}", missing)])


@pytest.fixture
async def base() -> AsyncIterator[str]:
    async with serving(app(), Tcp(host="127.0.0.1", port=0, key="http.port")) as place:
        assert isinstance(place, Tcp)
        yield f"http://127.0.0.1:{place.port}"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def posted(
    client: aiohttp.ClientSession, url: str, data: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, Any]]:
    async with client.post(url, data=data, headers=headers) as response:
        return response.status, response.content_type, json.loads(await response.read())


async def test_a_body_is_answered_and_an_empty_one_has_its_defaults(
    base: str, client: aiohttp.ClientSession
) -> None:
    assert await posted(client, f"{base}/say", data=b'{"said":"hi"}') == (
        200,
        "application/json",
        {"said": "hi", "by": "someone"},
    )
    assert (await posted(client, f"{base}/say"))[2]["said"] == "nothing"


@pytest.mark.parametrize(
    ("data", "headers", "status", "code"),
    [
        (b"{", {}, 400, "syntax"),
        (b'{"said":"a","said":"b"}', {}, 400, "duplicate_key"),
        (b'{"said":NaN}', {}, 400, "number"),
        (b'{"sad":"a"}', {}, 400, "fields"),
        (b"[" * 100 + b"]" * 100, {}, 400, "depth"),
        (b'{"said":"%s"}' % (b"x" * 70_000), {}, 413, "oversize"),
        (b"x", {"Content-Encoding": "gzip"}, 415, "media_type"),
    ],
    ids=["no JSON", "one key twice", "NaN", "unknown key", "too deep", "too large", "compressed"],
)
async def test_a_bad_body_is_a_problem_with_a_code(
    base: str, client: aiohttp.ClientSession, data: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    found, kind, problem = await posted(client, f"{base}/say", data=data, headers=headers)
    assert (found, kind, problem["code"]) == (status, "application/problem+json", code)


async def test_errors_of_handlers_and_of_the_router_are_problems(
    base: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{base}/nodes/gpu-1") as response:
        problem = await response.json(content_type="application/problem+json")
        assert (response.status, problem["code"]) == (404, "not_found")
        assert "no node 'gpu-1'" in problem["detail"]
    async with client.get(f"{base}/nowhere") as response:
        assert (await response.json(content_type="application/problem+json"))["status"] == 404
    async with client.get(f"{base}/say") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")
        assert response.content_type == "application/problem+json"


async def test_every_answer_has_a_request_id_and_none_names_the_server(
    base: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{base}/nodes/x", headers={"X-Request-Id": "my-1"}) as response:
        assert response.headers["X-Request-Id"] == "my-1"
        assert "my-1" in (await response.text())
        assert "Server" not in response.headers
    async with client.get(f"{base}/nowhere", headers={"X-Request-Id": "no spaces"}) as response:
        assert response.headers["X-Request-Id"] not in {"", "no spaces"}
        assert "Server" not in response.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])  # noqa: S104
async def test_a_bind_beyond_loopback_is_refused(host: str) -> None:
    with pytest.raises(ConfigInvalid, match="mutual TLS") as caught:
        async with serving(app(), Tcp(host=host, port=0, key="http.host")):
            pass
    assert set(caught.value.problems) == {"http.host"}


async def test_a_taken_port_is_named_with_its_key() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = Tcp(host="127.0.0.1", port=other.getsockname()[1], key="http.port")
        with pytest.raises(ConfigInvalid, match="in use by another process") as caught:
            async with serving(app(), place):
                pass
    assert set(caught.value.problems) == {"http.port"}


async def test_a_unix_socket_knows_its_peer_and_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    async with (
        serving(app(), Unix(path=path, key="listen.socket")),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        _, _, said = await posted(client, "http://localhost/say")
        assert said["by"] == pwd.getpwuid(os.geteuid()).pw_name
    assert not path.exists()


async def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    assert path.is_socket()
    async with (
        serving(app(), Unix(path=path, key="k")),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client,
    ):
        assert (await posted(client, "http://localhost/say"))[0] == 200


async def test_the_socket_of_a_live_process_and_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    async with serving(app(), Unix(path=path, key="k")):
        with pytest.raises(ConfigInvalid, match="in use by another process"):
            async with serving(app(), Unix(path=path, key="k")):
                pass
        assert path.is_socket()
    (tmp_path / "data").write_text("precious")
    with pytest.raises(ConfigInvalid, match="is no socket"):
        async with serving(app(), Unix(path=tmp_path / "data", key="k")):
            pass
    assert (tmp_path / "data").read_text() == "precious"
    with pytest.raises(ConfigInvalid, match="does not exist"):
        async with serving(app(), Unix(path=tmp_path / "no" / "s.sock", key="k")):
            pass


async def test_a_head_that_never_ends_is_cut_off_and_one_connection_too_many_is_turned_away() -> None:
    place = Tcp(host="127.0.0.1", port=0, key="k")
    async with serving(app(), place, idle_s=1.0, max_connections=2) as bound, asyncio.timeout(20):
        assert isinstance(bound, Tcp)
        slow = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(2)]
        for _, writer in slow:
            writer.write(b"GET /nodes/x HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        for reader, writer in slow:
            assert await reader.read() == b""
            writer.close()


def event(number: int) -> ServerEvent:
    return ServerEvent(id=number, kind="node.joined", data=b'{"id":%d}' % number)


def feeding(feed: Feed) -> web.Application:
    async def events(request: web.Request) -> web.StreamResponse:
        return await stream(request, feed, heartbeat_s=0.05)

    made = new_app([web.get("/events", events)])
    end_on_shutdown(made, feed)
    return made


async def read_ids(response: aiohttp.ClientResponse, count: int) -> list[int]:
    ids: list[int] = []
    async with asyncio.timeout(20):
        while len(ids) < count:
            line = await response.content.readline()
            if line.startswith(b"id: "):
                ids.append(int(line[4:]))
    return ids


async def test_a_stream_resumes_after_the_last_id_and_goes_on(client: aiohttp.ClientSession) -> None:
    feed = Feed()
    for number in (1, 2, 3):
        feed.put(event(number))
    async with serving(feeding(feed), Tcp(host="127.0.0.1", port=0, key="k")) as place:
        assert isinstance(place, Tcp)
        url = f"http://127.0.0.1:{place.port}/events"
        async with client.get(url, headers={"Last-Event-ID": "1"}) as response:
            assert response.content_type == "text/event-stream"
            assert await read_ids(response, 2) == [2, 3]
            feed.put(event(4))
            assert await read_ids(response, 1) == [4]
        async with client.get(url, headers={"Last-Event-ID": "garbage"}) as response:
            assert await read_ids(response, 4) == [1, 2, 3, 4]


async def test_a_silent_stream_answers_at_once_and_keeps_a_heartbeat(client: aiohttp.ClientSession) -> None:
    feed = Feed()
    async with serving(feeding(feed), Tcp(host="127.0.0.1", port=0, key="k")) as place:
        assert isinstance(place, Tcp)
        async with asyncio.timeout(20), client.get(f"http://127.0.0.1:{place.port}/events") as response:
            beats = [await response.content.readline() for _ in range(6)]
    assert set(beats) == {b":\n", b"\n"}


async def test_a_stream_ends_with_the_server(client: aiohttp.ClientSession) -> None:
    feed = Feed()
    async with contextlib.AsyncExitStack() as server:
        place = await server.enter_async_context(
            serving(feeding(feed), Tcp(host="127.0.0.1", port=0, key="k"))
        )
        assert isinstance(place, Tcp)
        response = await client.get(f"http://127.0.0.1:{place.port}/events")
        await until(lambda: response.status == 200)
    async with asyncio.timeout(20):
        assert set((await response.read()).splitlines()) <= {b":", b""}


async def test_a_reader_of_an_earlier_feed_is_told_of_the_gap_and_hears_all_of_this_one(
    client: aiohttp.ClientSession,
) -> None:
    feed = Feed()
    feed.put(event(1))
    async with serving(feeding(feed), Tcp(host="127.0.0.1", port=0, key="k")) as place:
        assert isinstance(place, Tcp)
        url = f"http://127.0.0.1:{place.port}/events"
        async with client.get(url, headers={"Last-Event-ID": "500"}) as response:
            assert await response.content.readline() == b"event: gap\n"
            assert await read_ids(response, 1) == [1]
        async with client.get(url, headers={"Last-Event-ID": "1"}) as response:
            assert await response.content.readline() == b":\n"


def test_a_full_feed_loses_its_oldest_and_says_so() -> None:
    feed = Feed(size=2)
    for number in (1, 2, 3):
        feed.put(event(number))
    assert [stored.id for stored in feed.after(0)] == [2, 3]
    assert feed.has_gap(0)
    assert not feed.has_gap(1)
    with pytest.raises(ValueError, match="does not follow"):
        feed.put(event(3))
