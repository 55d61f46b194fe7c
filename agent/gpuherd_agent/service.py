"""The daemon: the node with its real doors, its page, its broker, and the life cycle that systemd sees."""

import asyncio
import contextlib
import os
import random
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from gpuherd.errors import ConfigInvalid
from gpuherd.shell import logs
from gpuherd.shell.broker import MqttBus
from gpuherd.shell.broker_failure import leaf
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.http_listen import Tcp, serving
from gpuherd.shell.sd_notify import SdNotify
from gpuherd_agent.actuators.head import HeadHelper
from gpuherd_agent.actuators.hooks import SiteHooks
from gpuherd_agent.actuators.ray_command import Owner
from gpuherd_agent.actuators.raylet import RayChild
from gpuherd_agent.doors import Identity
from gpuherd_agent.gossiping import Gossiping
from gpuherd_agent.herald import Herald, NameTaken
from gpuherd_agent.http_api import new_agent_app, why_not_ready
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.node import Node, Outside
from gpuherd_agent.recording import RecordingInvalid
from gpuherd_agent.repair import Step
from gpuherd_agent.sensing import Pace
from gpuherd_agent.sensors.backend import BackendUnknown
from gpuherd_agent.sensors.catalog import senses
from gpuherd_agent.sensors.kernel_log import Cursor, KernelLog
from gpuherd_agent.sensors.mounts import MountsSensor
from gpuherd_agent.sensors.ports import PortsSensor
from gpuherd_agent.sensors.probe import GpuProbe
from gpuherd_agent.sensors.replay import Replay
from gpuherd_agent.sensors.site_checks import SiteChecks
from gpuherd_agent.sensors.smoke import SmokeWork
from gpuherd_agent.settings import AgentSettings
from gpuherd_agent.station import Rules
from gpuherd_agent.store import Store, StoreBusy, StoreFailed

EX_CONFIG: Final = 78
_NOTIFY_S: Final = 1.0

log = logs.get("gpuherd.agent")


class _Ended(Exception):
    """SIGTERM or SIGINT came."""


def run(settings: AgentSettings) -> int:
    """Run the agent and return its exit code; raises ConfigInvalid before anything has started."""
    try:
        store = Store(Path(settings.state_dir))
    except (StoreBusy, StoreFailed) as error:
        raise ConfigInvalid({"state_dir": str(error)}) from error
    try:
        return asyncio.run(_live(settings, store))
    finally:
        store.close()


async def _live(settings: AgentSettings, store: Store) -> int:
    code = 0
    try:
        await _serve(settings, store)
    except* _Ended:
        log.info("agent.stopped")
    except* NameTaken as group:
        log.error("name.taken", error=str(leaf(group)))  # noqa: TRY400  an expected refusal
        code = EX_CONFIG
    return code


async def _serve(settings: AgentSettings, store: Store) -> None:
    clock = SystemClock()
    identity = _identity(settings, epoch=max(int(clock.wall() * 1_000), store.load().epoch + 1))
    rng = random.Random()  # noqa: S311  spreads reconnects and names raylets; nothing secret
    if store.set_aside is not None:
        log.error("store.unreadable", kept_as=str(store.set_aside))
    async with _outside(settings, store, clock, rng) as outside:
        node = Node(
            identity=identity,
            rules=_rules(settings),
            declared=settings.gpu.declared,
            pace=Pace(period_s=settings.gpu.period_s, confirm_s=settings.gpu.confirm_s),
            outside=outside,
        )
        bus = MqttBus(
            settings.broker,
            client_id=f"{identity.node}-{identity.epoch}",
            clock=clock,
            rng=rng,
            presence=lambda number: herald.presence(number),  # noqa: PLW0108  herald is made below
        )
        herald = node.listen(bus, was_new=store.was_new)
        wanted = settings.gossip
        gossiping = Gossiping(identity, wanted, node, bus, outside) if wanted.enabled else None
        app = new_agent_app(
            lambda: node.facts(bus),
            why_not_live=node.why_not_live,
            fleet=gossiping.fleet if gossiping else None,
        )
        place = Tcp(host=settings.http.host, port=settings.http.port, key="http.port")
        listening = gossiping.listening() if gossiping else contextlib.nullcontext()
        async with serving(app, place), listening, asyncio.TaskGroup() as group:
            log.info("agent.started", node=identity.node, cluster=identity.cluster, epoch=identity.epoch)
            group.create_task(_until_told(herald, gossiping))
            if gossiping is not None:
                group.create_task(gossiping.run())
            group.create_task(_notify(node, bus))
            group.create_task(bus.run())
            await node.run()


@contextlib.asynccontextmanager
async def _outside(
    settings: AgentSettings, store: Store, clock: SystemClock, rng: random.Random
) -> AsyncIterator[Outside]:
    try:
        replay = Replay(Path(settings.sensors.replay), clock) if settings.sensors.replay else None
        probe = replay or GpuProbe(settings.gpu, clock)
    except BackendUnknown as error:
        raise ConfigInvalid({"gpu.backend": str(error)}) from error
    except (RecordingInvalid, OSError) as error:
        raise ConfigInvalid({"sensors.replay": str(error)}) from error
    kernel = _kernel(settings, store.load()) if settings.sensors.kernel_log and not replay else None
    try:
        yield Outside(
            clock=clock,
            rng=rng,
            probe=probe,
            raylets=RayChild(settings.ray, _owner(settings), log=Path(settings.state_dir) / "ray-start.log"),
            heads=HeadHelper(
                cluster=settings.cluster,
                node=settings.node,
                token_path=settings.ray.token_path if settings.ray.auth_mode == "token" else "",
            ),
            store=store,
            smoke=SmokeWork(settings.preflight, os.environ) if settings.preflight.smoke else None,
            hooks=SiteHooks(settings.hooks, _site_environment(settings)) if settings.hooks.folder else None,
            checks=SiteChecks(settings.checks, clock, _site_environment(settings))
            if settings.checks.folder
            else None,
            kernel=kernel,
            senses=replay.senses() if replay else senses(settings, clock, kernel),
            ports=None if replay else _ports(settings, clock),
            mounts=MountsSensor(settings.sensors, clock) if settings.sensors.mounts and not replay else None,
            dcgm_compat=settings.http.dcgm_compat,
            repairs=frozenset(step for step in Step if getattr(settings.repair, step.value, False)),
            state_dir=Path(settings.state_dir),
        )
    finally:
        await probe.close()


def _kernel(settings: AgentSettings, memory: NodeMemory) -> KernelLog:
    cursor = Cursor(boot_id=memory.kernel_boot_id, position=memory.kernel_position)
    return KernelLog(Path(settings.sensors.kernel_log), _boot_id(), cursor)


def _ports(settings: AgentSettings, clock: SystemClock) -> PortsSensor | None:
    """Return the sensor on a host that has such adapters, or is to have them."""
    has_any = (Path(settings.sensors.root) / "sys/class/infiniband").is_dir()
    return PortsSensor(settings.sensors, clock) if has_any or settings.sensors.ports else None


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _identity(settings: AgentSettings, *, epoch: int) -> Identity:
    """Two agents on one machine differ by their state folder."""
    state_dir = Path(settings.state_dir).resolve()
    return Identity(
        cluster=settings.cluster,
        node=settings.node,
        epoch=epoch,
        host=f"{socket.gethostname()} (state in {state_dir})",
        boot_id=_boot_id(),
    )


def _site_environment(settings: AgentSettings) -> dict[str, str]:
    """Return what the site's programs are started with: nothing of ours that is secret."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "GPUHERD_CLUSTER": settings.cluster,
        "GPUHERD_NODE": settings.node,
    }


def _owner(settings: AgentSettings) -> Owner:
    state_dir = str(Path(settings.state_dir).resolve())
    return Owner(cluster=settings.cluster, node=settings.node, pool=settings.pool, agent=state_dir)


def _rules(settings: AgentSettings) -> Rules:
    return Rules(
        cluster=settings.cluster,
        node=settings.node,
        pool=settings.pool,
        heads=settings.head.addresses,
        without_orders=settings.without_orders,
        join_timeout_s=settings.ray.start_timeout_s,
        stop_grace_s=settings.ray.stop_grace_s,
        declared=settings.gpu.declared,
        shrink_min_ratio=settings.gpu.shrink_min_ratio,
    )


async def _until_told(herald: Herald, gossiping: Gossiping | None) -> None:
    """Wait for SIGTERM or SIGINT, say goodbye, then end the group: its end sends what the bus still has."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    SdNotify().stopping()
    herald.farewell()
    if gossiping is not None:
        await gossiping.leave()
    raise _Ended


async def _notify(node: Node, bus: MqttBus) -> None:
    """Tell systemd when the agent can speak for its node, and that it still moves."""
    systemd = SdNotify(os.environ)
    said_ready = False
    while True:
        facts = node.facts(bus)
        if not said_ready and not why_not_ready(facts):
            systemd.ready()
            log.info("agent.ready", health=facts.verdict.severity.value)
            said_ready = True
        if not node.why_not_live():
            systemd.watchdog()
        systemd.status(f"{facts.phase}: {node.steward.station.reason}")
        await asyncio.sleep(_NOTIFY_S if said_ready else _NOTIFY_S / 10)
