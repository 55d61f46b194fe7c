"""Triggers against a real Prometheus and a real HTTP server that misbehaves in every way it can."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.kit.prometheus import prometheus

from gpuherd.names import PoolName
from gpuherd.settings import Secret
from gpuherd.shell.clock import SystemClock
from gpuherd_autoscaler.snapshot import Freshness
from gpuherd_autoscaler.triggers.http_json import HttpSource
from gpuherd_autoscaler.triggers.kinds import TriggerMissing
from gpuherd_autoscaler.triggers.promql import PromqlSource
from gpuherd_autoscaler.triggers.settings import Trigger
from gpuherd_autoscaler.triggers.watch import Watch
from gpuherd_autoscaler.windows import Window
from gpuherd_sim.demo.stage import free_ports

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def trigger(name: str = "t", **given: object) -> Trigger:
    defaults: dict[str, object] = {"pool": PoolName("a"), "kind": "http", "period_s": 1.0, "deadline_s": 1.0}
    return Trigger(name=name, **{**defaults, **given})  # type: ignore[arg-type]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    """Serve every path while the block lasts and yield the address."""
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def says(body: bytes, status: int = 200, **headers: str) -> web.StreamResponse:
    return web.Response(body=body, status=status, headers=headers)


def answering(body: bytes, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        del request
        return await says(body, status, **headers)

    return handler


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b" " * 65_536)


async def drips(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b" ")
        await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        pytest.param(answering(b"7"), "", id="a number"),
        pytest.param(answering(b'"7.0"'), "", id="a number as text"),
        pytest.param(answering(b"NaN"), "no number", id="NaN"),
        pytest.param(answering(b"1e999"), "no number", id="infinite"),
        pytest.param(answering(b"-7"), "below 0", id="negative"),
        pytest.param(answering(b"null"), "no number", id="null"),
        pytest.param(answering(b""), "no JSON", id="empty"),
        pytest.param(answering(b"<html>"), "no JSON", id="a page"),
        pytest.param(answering(b"[" * 200_000), "no JSON", id="deep"),
        pytest.param(answering(b"9" * 5_000), "no", id="a number of 5,000 digits"),
        pytest.param(answering(b"7", 500), "status 500", id="500"),
        pytest.param(answering(b"7", 302, Location="/there"), "status 302", id="redirect"),
        pytest.param(endless, "longer than", id="endless"),
        pytest.param(drips, "deadline", id="drips"),
    ],
)
async def test_only_a_number_in_time_is_an_answer(handler: Handler, words: str) -> None:
    async with served(handler) as url:
        source = HttpSource(trigger(url=url))
        said = await outcome(source)
        await source.close()
    assert words in said if words else said == "7"


async def outcome(source: HttpSource) -> str:
    """Return the number, or why there is none."""
    try:
        async with asyncio.timeout(1.0):
            return f"{await source.read():g}"
    except TriggerMissing as why:
        return str(why)
    except TimeoutError:
        return "over its deadline"


async def test_a_server_that_is_not_there_is_missing() -> None:
    (port,) = free_ports(1)
    source = HttpSource(trigger(url=f"http://127.0.0.1:{port}"))
    with pytest.raises(TriggerMissing, match="ClientConnectorError"):
        await source.read()
    await source.close()


async def test_the_token_goes_along_and_never_shows() -> None:
    heard: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        heard.append(request.headers.get("Authorization", ""))
        return await says(b"1")

    async with served(handler) as url:
        one = trigger(url=url, token=Secret("hush"))
        source = HttpSource(one)
        await source.read()
        await source.close()
    assert heard == ["Bearer hush"]
    assert "hush" not in repr(one)


async def test_one_that_hangs_delays_no_other_and_none_ends_the_watch() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/hangs":
            await asyncio.sleep(60)
        return await says(b"3" if request.path == "/good" else b"oops")

    news = asyncio.Event()
    clock = SystemClock()
    async with served(handler) as url:
        watch = Watch(
            [
                trigger("hangs", url=f"{url}/hangs"),
                trigger("good", url=f"{url}/good"),
                trigger("bad", url=f"{url}/bad"),
                trigger("night", kind="schedule", window="always", nodes=2),
            ],
            [Window(name="always", start="0 * * * *", duration_s=7_200.0)],
            clock,
            on_news=news.set,
        )
        running = asyncio.ensure_future(watch.run())
        try:
            async with asyncio.timeout(10):
                while len(watch.readings(clock.now())) < 4:
                    news.clear()
                    await news.wait()
            found = watch.readings(clock.now())
            assert (found["good"].fresh, found["night"].fresh) == (3, 2)
            assert found["hangs"].error == "no answer within 1 s"
            assert "no JSON" in found["bad"].error
            assert news.is_set()
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    good = watch.readings(clock.now() + 100.0)["good"]
    assert (good.freshness, good.value) == (Freshness.STALE, 3)


@pytest.mark.prometheus
async def test_a_real_prometheus_is_asked(tmp_path: Path) -> None:
    async def ask(url: str, query: str) -> float:
        source = PromqlSource(trigger(kind="promql", url=url, query=query))
        try:
            return await source.read()
        finally:
            await source.close()

    config = "scrape_configs: [{job_name: s, scrape_interval: 1s, static_configs: [{targets: [SELF]}]}]"
    async with prometheus(tmp_path, config) as server:
        url = server.url
        async with asyncio.timeout(40):
            while True:
                try:
                    if await ask(url, "sum(up)") == 1.0:
                        break
                except TriggerMissing:
                    await asyncio.sleep(0.2)
        assert await ask(url, "scalar(sum(up)) * 42") == 42.0
        for query, words in (
            ("no_such_series", "no series"),
            ("up{", "refuses|status 400"),
            ("up[5m]", "matrix"),
            ('{job="self"}', "series"),
            ("0/0 * sum(up)", "no number"),
        ):
            with pytest.raises(TriggerMissing, match=words):
                await ask(url, query)


def test_the_check_prints_the_next_openings(tmp_path: Path) -> None:
    config = tmp_path / "autoscaler.toml"
    config.write_text(
        'cluster = "lab"\ninsecure = true\nhead.addresses = ["h:1"]\n'
        '[[pool]]\nname = "a"\nnodes = ["n-1"]\n'
        '[[window]]\nname = "night"\nstart = "0 20 * * *"\nduration_s = 3600.0\nzone = "Asia/Tokyo"\n'
    )
    done = subprocess.run(
        [str(Path(sys.executable).with_name("agentctl")), "config", "check", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "window night, Asia/Tokyo:"
    assert len([line for line in lines if "20:00 JST  to" in line and "21:00 JST" in line]) == 5
    config.write_text(config.read_text() + '[[trigger]]\nname = "t"\npool = "a"\nkind = "tarot"\n')
    again = subprocess.run(
        [str(Path(sys.executable).with_name("agentctl")), "config", "check", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode != 0
    assert "trigger[0].kind: 'tarot' is no kind of trigger" in again.stderr
