"""Whole agents that gossip: the fleet is seen by any of them with broker, autoscaler and Ray's head away."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.herd import ONE, TWO, Herd, drain_hold

from gpuherd.names import NodeName
from gpuherd_sim.demo.stage import free_ports

pytestmark = pytest.mark.timeout(120)

BIN = Path(sys.executable).parent
THREE = NodeName("gpu-3")
_PATIENCE_S = 30.0


@pytest.fixture
def herd() -> Iterator[Herd]:
    made = Herd.make()
    try:
        yield made
    finally:
        made.close()


def fleet(herd: Herd, via: NodeName) -> dict[str, dict[str, object]]:
    """Return the nodes of ``agentctl fleet --via``, by name; empty while the agent is not up."""
    done = subprocess.run(
        [str(BIN / "agentctl"), "fleet", "--via", f"127.0.0.1:{herd.stage.agent_ports[via]}", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 7:
        return {}
    assert done.returncode == 0, done.stderr
    return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}


def until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_any_agent_shows_the_fleet_with_everything_central_away(herd: Herd) -> None:
    herd.start_agent(ONE)
    herd.start_agent(TWO)
    until("both see both", lambda: all({ONE, TWO} <= fleet(herd, via).keys() for via in (ONE, TWO)))
    until(
        "each says that its broker is lost",
        lambda: all(fleet(herd, ONE)[name]["broker"] == "lost" for name in (ONE, TWO)),
    )
    until("the page counts both", lambda: 'gpuherd_gossip_members{verdict="alive"} 2' in page(herd))


def page(herd: Herd) -> str:
    url = f"http://127.0.0.1:{herd.stage.agent_ports[ONE]}/metrics"
    with urllib.request.urlopen(url, timeout=5.0) as reply:
        return str(reply.read().decode())


def start_third(herd: Herd) -> None:
    """Start one more agent beside the stage's two: of two nodes, neither is more than half."""
    http_port, gossip_port = free_ports(2)
    herd.start_agent(
        TWO,
        name=THREE,
        GPUHERD__NODE=THREE,
        GPUHERD__STATE_DIR=str(herd.stage.folder / f"{THREE}.state"),
        GPUHERD__HTTP__PORT=str(http_port),
        GPUHERD__GOSSIP__PORT=str(gossip_port),
    )


def test_no_ray_call_on_unreachable(herd: Herd) -> None:
    """A peer that is gone is told, and leads to nothing: no drain, no look at Ray, no change of phase."""
    herd.start_agent(ONE)
    herd.start_agent(TWO)
    start_third(herd)
    until("all see all", lambda: all({ONE, TWO, THREE} <= fleet(herd, via).keys() for via in (ONE, TWO)))
    log = herd.stage.folder / "logs" / f"{ONE}.log"
    before = len(log.read_text("utf-8").splitlines())
    herd.crew.kill(THREE)
    until("one tells of it", lambda: fleet(herd, ONE)[THREE]["verdict"] in ("agent_dead", "failed"))
    events = [json.loads(line)["event"] for line in log.read_text("utf-8").splitlines()[before:]]
    assert events
    assert all(event.startswith(("gossip.", "broker.")) for event in events), events
    assert herd.raylets(ONE) == []


def test_a_gossip_port_that_is_taken_is_a_setting_to_mend(herd: Herd) -> None:
    herd.start_agent(ONE)
    until("it is up", lambda: ONE in fleet(herd, ONE))
    done = subprocess.run(
        [str(BIN / "gpuherd-agent"), "--config", str(herd.stage.config(TWO))],
        env={
            **herd.stage.agent_environment(TWO),
            "GPUHERD__GOSSIP__PORT": str(herd.stage.gossip_ports[ONE]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 78
    assert "gossip.port" in done.stderr


async def test_planned_work_is_announced_to_all(herd: Herd) -> None:
    """A person's drain goes round by gossip, so that the others call nobody when the host is switched off."""
    herd.start_broker()
    async with herd.ear() as ear:
        herd.start_agent(ONE)
        herd.start_agent(TWO)
        await ear.until("both see both", lambda: {ONE, TWO} <= fleet(herd, ONE).keys())
        assert not fleet(herd, ONE)[TWO]["in_maintenance"]
        ear.order(drain_hold("new-fans"), node=TWO)
        await ear.until("the other one knows", lambda: fleet(herd, ONE)[TWO]["in_maintenance"] is True)
