"""The agent's HTTP page over a real socket, and its text before Prometheus' own judge."""

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
from tests.kit.node_facts import hung_node, sick_node

from gpuherd.shell.http_listen import Tcp, serving
from gpuherd_agent.exporter import NodeFacts, render
from gpuherd_agent.http_api import new_agent_app
from gpuherd_agent.readings import ProbeOutcome, ProbeReading


@dataclass
class Agent:
    """What the page asks of the daemon."""

    facts: NodeFacts
    trouble: str = ""


@pytest.fixture
def agent() -> Agent:
    return Agent(facts=sick_node())


@pytest.fixture
async def client(agent: Agent) -> AsyncIterator[aiohttp.ClientSession]:
    app = new_agent_app(lambda: agent.facts, why_not_live=lambda: agent.trouble)
    async with serving(app, Tcp(host="127.0.0.1", port=0, key="http.port")) as place:
        assert isinstance(place, Tcp)
        async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{place.port}") as session:
            yield session


@pytest.mark.prometheus
@pytest.mark.parametrize("facts", [sick_node(), hung_node()], ids=["sick", "hung driver"])
def test_promtool_finds_nothing_to_complain_about(facts: NodeFacts) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=render(facts), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_a_scrape_gets_the_page_of_the_last_tick(client: aiohttp.ClientSession, agent: Agent) -> None:
    async with client.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert await response.read() == render(sick_node())
    agent.facts = hung_node()
    async with client.get("/metrics") as response:
        assert await response.read() == render(hung_node())


async def test_a_stuck_loop_is_neither_live_nor_ready(client: aiohttp.ClientSession, agent: Agent) -> None:
    async with client.get("/livez") as response:
        assert (response.status, await response.text()) == (200, "ok\n")
    agent.trouble = "no tick for 40 s"
    for path in ("/livez", "/readyz"):
        async with client.get(path) as response:
            assert (response.status, await response.text()) == (503, "no tick for 40 s\n")


async def test_an_agent_is_ready_once_its_probe_has_answered_however_sick_the_node(
    client: aiohttp.ClientSession, agent: Agent
) -> None:
    known = agent.facts.snapshot
    assert known is not None
    starting = ProbeReading(outcome=ProbeOutcome.STARTING)
    for snapshot, status in ((None, 503), (replace(known, probe=starting), 503), (known, 200)):
        agent.facts = replace(agent.facts, snapshot=snapshot)
        async with client.get("/readyz") as response:
            assert response.status == status


async def test_the_page_changes_nothing(client: aiohttp.ClientSession) -> None:
    for method in ("POST", "PUT", "DELETE"):
        async with client.request(method, "/metrics") as response:
            assert response.status == 405
