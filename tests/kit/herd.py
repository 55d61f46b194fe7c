"""A herd on one machine for tests: real Ray head, real mosquitto, the shipped agent, simulated GPUs.

Processes belong to the Herd; what is heard of them belongs to an Ear, one a test.
"""

import asyncio
import json
import random
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gpuherd.broker_settings import BrokerSettings
from gpuherd.bus import Message
from gpuherd.errors import HeadUnreachable, WireInvalid
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import ClusterName, HoldId, NodeName, OperationId, PoolName
from gpuherd.phases import Phase
from gpuherd.ray import RayNode
from gpuherd.settings import Secret
from gpuherd.shell.broker import MqttBus
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gcs import Gcs
from gpuherd.wire import topics
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Ack, Command, Desired, Online, State
from gpuherd_agent.actuators.ray_command import MARK
from gpuherd_sim.demo.processes import Crew
from gpuherd_sim.demo.stage import CLUSTER, NODES, POOL, Stage, clear, head_command, healthy, set_up
from gpuherd_sim.gpus.scenario_file import write_scenario

QUICK_HEALTH = {
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
ONE, TWO = NODES[0], NODES[1]


def drain_hold(name: str, *, for_s: float = 3_600.0) -> Hold:
    """Return a user's drain."""
    return Hold(
        id=HoldId(name),
        owner="user:ann",
        kind=HoldKind.DRAIN,
        reason=name,
        since=0.0,
        for_s=for_s,
        on_deadline=OnDeadline.WAIT,
    )


@dataclass(slots=True)
class Herd:
    """Start with ``Herd.make()``; ``close`` ends every process and removes every file."""

    stage: Stage
    crew: Crew
    tasks: int = 0

    @classmethod
    def make(cls) -> "Herd":
        """Return a herd in which nothing runs yet."""
        stage = set_up()
        return cls(stage=stage, crew=Crew(stage.folder))

    def close(self) -> None:
        """End everything; fails when something would not end."""
        assert self.crew.dismiss()
        clear(self.stage.folder)

    def start_head(self) -> None:
        """Start Ray's head, which notices dead nodes within 2 s.

        In a process namespace of its own, as on a host of its own: beside a raylet that names its address
        Ray 2.60 refuses to start a head. Needs root.
        """
        (self.stage.folder / "h" / "ray_current_cluster").unlink(missing_ok=True)
        command = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", *head_command(self.stage)]
        self.crew.start("head", command, {**self.stage.environment(), **QUICK_HEALTH})

    def kill_head(self) -> None:
        """End the head and all that it started, as a power cut would: its namespace ends with its first."""
        children = psutil.Process(self.crew.pid("head")).children(recursive=True)
        self.crew.kill("head")
        psutil.wait_procs(children, timeout=10.0)

    def start_broker(self) -> None:
        """Start an empty mosquitto."""
        config = self.stage.folder / "mosquitto.conf"
        config.write_text(f"listener {self.stage.broker_port} 127.0.0.1\nallow_anonymous true\n")
        self.crew.start("broker", ["/usr/sbin/mosquitto", "-c", str(config)], self.stage.environment())

    def start_agent(self, node: NodeName = ONE, *, name: str = "", **environment: str) -> None:
        """Start the shipped agent of a node; ``environment`` holds ``GPUHERD__…`` overrides."""
        quick = {"GPUHERD__BROKER__RECONNECT_FIRST_S": "1", "GPUHERD__BROKER__RECONNECT_CAP_S": "2"}
        self.crew.start(
            name or node,
            ["gpuherd-agent", "--config", str(self.stage.config(node))],
            {**self.stage.agent_environment(node), **quick, **environment},
        )

    def start_task(self, seconds: float) -> Path:
        """Start a user's program with one task on one GPU; its file tells where it ran and that it ended."""
        self.tasks += 1
        out = self.stage.folder / f"task-{self.tasks}"
        command = [sys.executable, str(Path(__file__).with_name("ray_task.py"))]
        command += ["--head", self.stage.head, "--seconds", str(seconds), "--out", str(out)]
        self.crew.start(f"task-{self.tasks}", command, self.stage.environment())
        return out

    def raylets(self, node: NodeName = ONE) -> list[psutil.Process]:
        """Return the running raylets of a node."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.name() == "raylet" and self._is_of(process, node):
                    found.append(process)
        return found

    def child(self, node: NodeName = ONE) -> psutil.Process:
        """Return the probe child of a node's agent."""
        children = psutil.Process(self.crew.pid(node)).children()
        return next(c for c in children if "gpuherd_agent.sensors.probe_child" in c.cmdline())

    def fresh(self) -> None:
        """Make the nodes as new between two tests; the head goes on."""
        for node in NODES:
            with suppress(KeyError):
                self.crew.kill(node)
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if any(self._is_of(process, node) for node in NODES):
                    process.kill()
        with suppress(KeyError):
            self.crew.kill("broker")
        for node in NODES:
            for file in sorted((self.stage.folder / f"{node}.state").glob("*")):
                if file.is_dir():
                    shutil.rmtree(file)
                else:
                    file.unlink()
            write_scenario(self.stage.scenario(node), healthy(node))

    def _is_of(self, process: psutil.Process, node: NodeName) -> bool:
        mark = process.environ().get(MARK, "")
        return mark.startswith(f"{CLUSTER}/{node}:") and str(self.stage.folder) in mark

    def log(self, node: NodeName = ONE) -> list[dict[str, object]]:
        """Return what an agent has logged."""
        text = (self.stage.folder / "logs" / f"{node}.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    @asynccontextmanager
    async def ear(self) -> AsyncIterator["Ear"]:
        """Listen to broker and head while the block lasts."""
        settings = BrokerSettings(
            url=f"mqtt://127.0.0.1:{self.stage.broker_port}", reconnect_first_s=0.3, reconnect_cap_s=0.5
        )
        bus = MqttBus(settings, client_id="ear", clock=SystemClock(), rng=random.Random(1))  # noqa: S311
        token = Secret(self.stage.token.read_text().strip())
        async with Gcs(self.stage.head, token=token) as gcs:
            ear = Ear(herd=self, bus=bus, gcs=gcs)
            for leaf in ("state", "online", "event/#", "ack/#"):
                bus.subscribe(topics.every_node(ClusterName(CLUSTER), leaf), ear.receive)
            running = asyncio.ensure_future(bus.run())
            try:
                yield ear
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running


@dataclass(slots=True)
class Ear:
    """What was heard: the last state and presence of each node, and events in order."""

    herd: Herd
    bus: MqttBus
    gcs: Gcs
    states: dict[str, State] = field(default_factory=dict)
    online: dict[str, Online] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    phases: dict[str, list[Phase]] = field(default_factory=lambda: defaultdict(list))
    generation: int = 0

    def receive(self, message: Message) -> None:
        """Take a message in."""
        place = topics.parse(message.topic, ClusterName(CLUSTER))
        if place is None:
            return
        name, leaf = place
        with suppress(WireInvalid):
            if leaf == "state":
                state = decode(message.payload, State)
                self.states[name] = state
                if self.phases[name][-1:] != [state.phase]:
                    self.phases[name].append(state.phase)
            elif leaf == "online":
                self.online[name] = decode(message.payload, Online)
            elif leaf.startswith("ack/"):
                self.acks.append(decode(message.payload, Ack))
            else:
                self.events.append(leaf.removeprefix("event/"))

    def order(
        self, *holds: Hold, serve: bool = True, lifted: tuple[str, ...] = (), node: NodeName = ONE
    ) -> None:
        """Publish the next desired document of a node."""
        self.generation += 1
        document = Desired(
            cluster=ClusterName(CLUSTER),
            node=node,
            term=1,
            generation=self.generation,
            serve=serve,
            holds=holds,
            lifted=tuple(HoldId(i) for i in lifted),
            head=(self.herd.stage.head,),
            pool=PoolName(POOL),
            pool_size=len(NODES),
        )
        self.bus.keep(topics.node(ClusterName(CLUSTER), node, "desired"), encode(document))

    def command(self, verb: str, *, epoch: int, node: NodeName = ONE, **arguments: str) -> None:
        """Send a node something to do once."""
        self.generation += 1
        document = Command(
            cluster=ClusterName(CLUSTER),
            node=node,
            id=OperationId(f"op-{self.generation}"),
            verb=verb,
            arguments=arguments,
            by="user:ann",
            reason="seen to",
            epoch=epoch,
            issued_at=time.time(),
            expires_s=60.0,
        )
        self.say("command", encode(document), node=node, retain=False)

    def say(self, leaf: str, payload: bytes, *, node: NodeName = ONE, retain: bool = True) -> None:
        """Publish anything on a node's topic."""
        topic = topics.node(ClusterName(CLUSTER), node, leaf)
        (self.bus.keep if retain else self.bus.tell)(topic, payload)

    async def until(self, what: str, is_so: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Wait until it is so; the failure tells what was waited for and what was heard."""
        end = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > end:
                told = {n: (s.phase.value, s.reason) for n, s in self.states.items()}
                raise AssertionError(f"not within {within_s:.0f} s: {what}; heard {told}, {self.events[-8:]}")
            await asyncio.sleep(0.1)

    async def phase(self, wanted: Phase, *, node: NodeName = ONE, within_s: float = 60.0) -> State:
        """Wait until a node's state tells this phase."""
        await self.until(
            f"{node} is {wanted}",
            lambda: node in self.states and self.states[node].phase is wanted,
            within_s=within_s,
        )
        return self.states[node]

    async def listed(self, node: NodeName = ONE) -> list[RayNode]:
        """Return the node's living entries at the head; empty also when the head is away."""
        try:
            return [n for n in (await self.gcs.sight()).nodes if n.name == node and n.is_alive]
        except HeadUnreachable:
            return []

    async def joined(self, node: NodeName = ONE, *, other_than: str = "", within_s: float = 60.0) -> RayNode:
        """Wait until node and head agree that it is a member, under another id than the given one."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            state = self.states.get(node)
            if state is not None and state.phase is Phase.MEMBER and state.ray_node_id != other_than:
                for found in await self.listed(node):
                    if found.id == state.ray_node_id:
                        return found
            await asyncio.sleep(0.2)
        raise AssertionError(f"{node} did not join; heard {self.states.get(node)}")


def stop(process: psutil.Process) -> None:
    """Freeze a process."""
    process.send_signal(signal.SIGSTOP)


def go_on(process: psutil.Process) -> None:
    """Let a frozen process go on."""
    process.send_signal(signal.SIGCONT)
