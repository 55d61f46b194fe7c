"""A fleet of simulated hosts in virtual time: seeded, so that equal seeds give equal runs, byte by byte."""

import hashlib
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.gossip import Gossip, Self
from gpuherd.gossip.identity import Identity, Signer, Verifier
from gpuherd.gossip.inputs import (
    Datagram,
    Input,
    Join,
    PathFault,
    Recall,
    SetRoster,
    SocketError,
    Tick,
)
from gpuherd.gossip.outputs import Answer, Call, Event, Output, SendDatagram
from gpuherd.names import ClusterName, NodeName
from gpuherd_sim.gossip.network import Network
from gpuherd_sim.gossip.node import Node, Starvation, State
from gpuherd_sim.gossip.quick_keys import QuickSigner, QuickVerifier, certify, make_key
from gpuherd_sim.gossip.schedule import Schedule
from gpuherd_sim.gossip.streams import Streams

SIM_CLUSTER: Final = ClusterName("sim")
PORT: Final = 7946
WALL_S: Final = 1_767_225_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event, when and by whom it was told."""

    at: float
    node: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a fleet is made of. ``settle_s`` of virtual time pass before it is handed over."""

    nodes: int
    seed: int
    racks: int = 0
    has_roster: bool = True
    observers: int = 0
    seeds: int = 3
    keep_packets: int = 0
    keep_frames: int = 0
    keep_inputs: bool = False
    """Needed for ``World.snapshot``."""
    needs_authority: bool = False
    cluster: ClusterName = SIM_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run of a node begins with."""

    identity: Identity
    address: Address
    advertised: Address
    epoch: int


class World:
    """Nodes, their network and what they told."""

    def __init__(self, plan: Plan, verifier: Verifier | None = None) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)  # noqa: S311  repeatable, not secret
        self.schedule = Schedule()
        self.network = Network(random.Random(plan.seed + 1))  # noqa: S311  repeatable, not secret
        self.told: list[Told] = []
        self.nodes: list[Node] = []
        self.datagrams = 0
        self.datagram_bytes = 0
        self.kept: deque[tuple[int, Address, bytes]] = deque(maxlen=plan.keep_packets)
        """The last datagrams: (receiver, source, payload), for replay."""
        self._trace = hashlib.blake2b(digest_size=16)
        self._verifier: Verifier = verifier or QuickVerifier(plan.needs_authority)
        self._at: dict[Address, Node] = {}
        self.streams = Streams(self.schedule, self.network, self._receive, plan.keep_frames)
        for number in range(plan.nodes + plan.observers):
            self.add(number)

    # Making nodes.

    def name(self, number: int) -> NodeName:
        """Return the name of a node by its number."""
        return NodeName(f"n{number:04d}")

    def address(self, number: int) -> Address:
        """Return where a node listens first."""
        return Address(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", PORT)

    @property
    def roster(self) -> dict[NodeName, str]:
        """Who is expected, each with its rack."""
        racks = self.plan.racks
        return {self.name(i): f"rack-{i % racks}" if racks else "" for i in range(self.plan.nodes)}

    def add(
        self,
        number: int,
        *,
        identity: Identity | None = None,
        address: Address | None = None,
        advertised: Address | None = None,
    ) -> Node:
        """Start a node at a random moment of the first fifth of a second, and return it.

        ``address`` is where it is, ``advertised`` where it says that it is.
        """
        if identity is None:
            identity = Identity(name=self.name(number), key=make_key(f"key {number}"))
            if self.plan.needs_authority:
                identity = certify(self.plan.cluster, identity)
        place = address or self.address(number)
        epoch = int(1000 * (WALL_S + self.schedule.now))
        run = _Run(identity=identity, address=place, advertised=advertised or place, epoch=epoch)
        node = self._make(number, run, self.rng.randrange(2**62))
        self.nodes.append(node)
        self._start(node)
        return node

    def _make(self, number: int, run: _Run, seed: int) -> Node:
        signer: Signer = QuickSigner(run.identity.key)
        own = Self(
            cluster=self.plan.cluster,
            identity=run.identity,
            epoch=run.epoch,
            advertised=run.advertised,
            is_observer=self.plan.nodes <= number < self.plan.nodes + self.plan.observers,
        )
        core_rng = random.Random(seed)  # noqa: S311  repeatable, not secret
        return Node(
            number=number,
            identity=run.identity,
            address=run.address,
            epoch=run.epoch,
            core=Gossip(own, signer, self._verifier, core_rng),
            rng=random.Random(seed + 1),  # noqa: S311  repeatable, not secret
            seed=seed,
            keeps_history=self.plan.keep_inputs,
        )

    def _start(self, node: Node) -> None:
        self._at[node.address] = node
        when = self.schedule.now + self.rng.random() * 0.2
        seeds = tuple(self.address(i) for i in range(self.plan.seeds))
        commands: list[Input] = [Join(seeds=seeds)]
        if self.plan.has_roster:
            commands.insert(0, SetRoster(racks=self.roster))
        core = node.core
        for command in commands:
            self.schedule.at(when, partial(self.command_core, node, core, command))

    # Running.

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.schedule.run(self.schedule.now + seconds)

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.schedule.now

    @property
    def packets_sent(self) -> int:
        """Packets of all nodes so far, those of streams too."""
        return self.datagrams + self.streams.packets

    @property
    def bytes_sent(self) -> int:
        """Bytes of all nodes so far, without headers of IP, UDP and TCP."""
        return self.datagram_bytes + self.streams.bytes

    def acquaint(self) -> None:
        """Let everybody know everybody at once, as after a restart with a stored table."""
        entries = [(node.identity, node.core.own_record) for node in self.nodes]
        for node in self.nodes:
            others = tuple(entry for entry in entries if entry[0] is not node.identity)
            self.command(node.number, Recall(known=others))

    @property
    def trace(self) -> str:
        """Return a hash over every packet and event so far."""
        return self._trace.hexdigest()

    def command(self, number: int, given: Input) -> None:
        """Give a node a command now."""
        node = self.nodes[number]
        self.command_core(node, node.core, given)

    def command_core(self, node: Node, core: Gossip, given: Input) -> None:
        """Give it to this run of a node, if that still runs."""
        if node.core is core and node.runs:
            self._act(node, node.handle(given, self.now))

    def _receive(self, node: Node, make: Callable[[float], Input]) -> None:
        """The kernel has something for a process."""
        if not node.has_process:
            return
        node.inbox.append(make)
        if not node.runs:
            return
        starved = node.starvation
        if starved is None or not starved.reads:
            self._drain(node)
            return
        node.read_at = max(node.read_at, self.now + node.rng.uniform(starved.least_s, starved.most_s))
        core = node.core
        self.schedule.at(node.read_at, lambda: self._read_one(node, core))

    def _read_one(self, node: Node, core: Gossip) -> None:
        if node.core is core and node.runs and node.inbox:
            given = node.inbox.popleft()(node.clock(self.now))
            self._act(node, node.handle(given, self.now))

    def _drain(self, node: Node) -> None:
        self._act(node, node.drain(self.now))

    def _act(self, node: Node, outputs: list[Output] | tuple[Output, ...]) -> None:
        for output in outputs:
            match output:
                case SendDatagram():
                    self._send(node, output)
                case Call():
                    self._trace.update(output.payload)
                    self.streams.call(node, self._at.get(output.destination), output)
                case Answer():
                    self._trace.update(output.payload)
                    self.streams.answer(output)
                case _:
                    self.told.append(Told(at=self.now, node=node.number, event=output))
                    self._trace.update(repr((node.number, output)).encode())
        self._arm(node)

    def _arm(self, node: Node) -> None:
        node.wake_number += 1
        number = node.wake_number
        due = node.core.deadline - node.clock_skew_s
        if due == float("inf"):
            return
        starved = node.starvation
        if starved is not None and starved.timers:
            due = max(due, self.now) + node.rng.uniform(starved.least_s, starved.most_s)
        self.schedule.at(due, lambda: self._wake(node, number))

    def _wake(self, node: Node, number: int) -> None:
        if number == node.wake_number and node.runs:
            starved = node.starvation
            if starved is not None and starved.reads:
                if node.core.deadline <= node.clock(self.now):
                    self._act(node, node.handle(Tick(), self.now))
                return
            self._drain(node)

    # Datagrams.

    def _send(self, node: Node, output: SendDatagram) -> None:
        payload = output.payload
        self.datagrams += 1
        self.datagram_bytes += len(payload)
        self._trace.update(payload)
        target = self._at.get(output.destination)
        if target is None or not self.network.passes(node.number, target.number):
            return
        self.deliver(target, node.address, payload)
        if self.network.doubles and self.rng.random() < self.network.doubles:
            self.deliver(target, node.address, payload)
        if output.is_probe and target.state is State.KILLED:
            self._refuse(node, output.destination, target)

    def deliver(self, target: Node, source: Address, payload: bytes) -> None:
        """Let a datagram arrive after the network's delay."""
        if self.kept.maxlen:
            self.kept.append((target.number, source, payload))
        spoiled = self.network.spoil(payload)
        at = self.now + self.network.delay()

        def arrive() -> None:
            received_at = target.clock(at)
            self._receive(target, lambda _: Datagram(source=source, payload=spoiled, received_at=received_at))

        self.schedule.at(at, arrive)

    def _refuse(self, node: Node, destination: Address, target: Node) -> None:
        if self.network.passes(target.number, node.number):
            error = SocketError(destination=destination, fault=PathFault.REFUSED)
            at = self.now + self.network.delay() + self.network.delay()
            self.schedule.at(at, lambda: self._receive(node, lambda _: error))

    # Faults.

    def kill(self, number: int) -> None:
        """End a process by SIGKILL: its kernel refuses from now on."""
        node = self.nodes[number]
        node.state = State.KILLED
        node.inbox.clear()

    def power_off(self, number: int) -> None:
        """Take a host away: silence."""
        node = self.nodes[number]
        node.state = State.OFF
        node.inbox.clear()

    def freeze(self, number: int) -> None:
        """Stop a process (SIGSTOP); its kernel goes on shaking hands."""
        self.nodes[number].state = State.FROZEN

    def thaw(self, number: int) -> None:
        """Let it go on: everything that waited is there at once."""
        node = self.nodes[number]
        node.state = State.RUNNING
        self._drain(node)

    def starve(self, number: int, starvation: Starvation | None) -> None:
        """Give a process too little CPU, or enough again (None)."""
        node = self.nodes[number]
        node.starvation = starvation
        self._drain(node)

    def jump_clock(self, number: int, seconds: float) -> None:
        """Move a host's monotonic clock forward, as a resumed VM finds it."""
        node = self.nodes[number]
        node.clock_skew_s += seconds
        self._arm(node)

    def restart(
        self,
        number: int,
        *,
        identity: Identity | None = None,
        address: Address | None = None,
        has_store: bool = True,
    ) -> Node:
        """Start a new run of a node. Without its store it does not know its last epoch."""
        old = self.nodes[number]
        self._at.pop(old.address, None)
        wall_ms = int(1000 * (WALL_S + self.now + old.wall_skew_s))
        epoch = max(wall_ms, old.epoch + 1) if has_store else wall_ms
        place = address or old.address
        run = _Run(identity=identity or old.identity, address=place, advertised=place, epoch=epoch)
        node = self._make(number, run, self.rng.randrange(2**62))
        node.wall_skew_s = old.wall_skew_s
        self.nodes[number] = node
        self._start(node)
        return node

    def snapshot(self, number: int) -> int:
        """Return the mark of a node's present state, for ``resume``; needs ``Plan.keep_inputs``."""
        return len(self.nodes[number].history)

    def resume(self, number: int, snapshot: int) -> None:
        """Put a VM back to a snapshot: the core is rebuilt from the inputs that it had had by then."""
        old = self.nodes[number]
        run = _Run(identity=old.identity, address=old.address, advertised=old.address, epoch=old.epoch)
        node = self._make(number, run, old.seed)
        for given, here in old.history[:snapshot]:
            node.core.handle(given, here)
        node.history = old.history[:snapshot]
        self.nodes[number] = node
        self._at[node.address] = node
        self._arm(node)
