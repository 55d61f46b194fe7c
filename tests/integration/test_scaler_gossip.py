"""The autoscaler's ear in the gossip: it hears real members' verdicts, and has no voice among them."""

import asyncio
from pathlib import Path
from signal import SIGKILL

from tests.kit.gossip_hosts import Hosts, free_port

from gpuherd.gossip_settings import GossipSettings
from gpuherd.names import ClusterName, NodeName
from gpuherd.shell.clock import SystemClock
from gpuherd_autoscaler.gossip_source import GossipSource
from gpuherd_autoscaler.snapshot import Freshness

NAMES = ("n0", "n1", "n2", "n3")


async def verdict_of(source: GossipSource, name: str, words: tuple[str, ...]) -> bool:
    """Wait at most 20 s until the source holds one of these verdicts."""
    clock = SystemClock()
    end = clock.now() + 20
    while clock.now() < end:
        sight = source.read(clock.now()).fresh
        if sight is not None and sight.verdicts.get(NodeName(name)) in words:
            return True
        await asyncio.sleep(0.1)
    return False


async def test_an_observer_hears_the_verdict_on_a_killed_agent(tmp_path: Path) -> None:
    with Hosts(tmp_path, roster=NAMES) as hosts:
        await asyncio.to_thread(hosts.fleet, 4)
        seeds = tuple(f"127.0.0.1:{host.port}" for host in hosts.by_name.values())
        settings = GossipSettings(enabled=True, port=free_port(), seeds=seeds)
        source = GossipSource(
            ClusterName("test"),
            settings,
            SystemClock(),
            state_dir=tmp_path,
            expected=dict.fromkeys(map(NodeName, NAMES), ""),
        )
        async with source.listening():
            assert await verdict_of(source, "n3", ("alive",))
            await asyncio.to_thread(hosts.signal, "n3", SIGKILL)
            assert await verdict_of(source, "n3", ("agent_dead", "failed"))
            found = source.read(SystemClock().now())
            assert found.freshness is Freshness.FRESH
            assert found.value is not None
            assert found.value.expected == len(NAMES)
            assert not any(name.startswith("scaler-") for name in found.value.verdicts)
