"""The node's voice and ear at the broker: presence, state, events; desired and mode documents.

A shell around namesake, orders and state_document; commands are taken by ``errands``. The broker may be
away for ever: nothing here is waited for by anything that keeps the node healthy.
"""

import asyncio
import contextlib
from collections import Counter, deque
from dataclasses import dataclass
from typing import Final, TypeVar

from gpuherd import holds
from gpuherd.bus import Bus, Message, Presence
from gpuherd.errors import HerdError, WireInvalid
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId
from gpuherd.phases import Phase
from gpuherd.ray import HeadVersions
from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd.wire import topics
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Event, Online, RefusedDesired, State, Witness
from gpuherd_agent import namesake
from gpuherd_agent.doors import Identity, JoinFailed, RayletDoor, Worker
from gpuherd_agent.namesake import Namesake, Standing
from gpuherd_agent.orders import receive_desired, receive_mode
from gpuherd_agent.state_document import Told, compose
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Steward

HEARTBEAT_S: Final = 10.0
GLANCE_S: Final = 1.0
_WAITING: Final = 16
"""So many documents wait until the name is settled: garbage after a good one must not push it out."""
WITNESS_S: Final = 2.0

D = TypeVar("D", Online, Event, State)

log = logs.get("gpuherd.agent")


class NameTaken(HerdError):
    """Another host's agent has this name; this one must not run."""


@dataclass(slots=True, kw_only=True)
class Sources:
    """Where the herald reads what it tells."""

    steward: Steward
    raylets: RayletDoor
    clock: Clock
    was_new: bool
    """The store was empty at start: if the broker knows the name, its state was lost."""


class Herald:
    """Publishes state when it changes and every HEARTBEAT_S; obeys documents once the name is settled."""

    def __init__(self, *, identity: Identity, rules: Rules, bus: Bus, sources: Sources) -> None:
        """Subscribe to the node's own topics; nothing is published before ``run``."""
        self.dropped: Counter[str] = Counter()
        self.desired_refused: Counter[str] = Counter()
        self.refused: RefusedDesired | None = None
        self.name = Namesake(host=identity.host)
        self._identity = identity
        self._rules = rules
        self._bus = bus
        self._steward = sources.steward
        self._raylets = sources.raylets
        self._clock = sources.clock
        self._was_new = sources.was_new
        self._changed = asyncio.Event()
        self._connections = 0
        self._seq = 0
        self._told_key: object = None
        self._told_at = float("-inf")
        self._witness = Witness()
        self._work: tuple[Worker, ...] | None = ()
        self._witnessed_at = float("-inf")
        self._waiting_desired: deque[bytes] = deque(maxlen=_WAITING)
        self._versions: HeadVersions | None = None
        for leaf, receive_leaf in (
            ("state", self._own_state),
            ("online", self._own_online),
            (f"event/{namesake.CLAIM}", self._claim),
            ("desired", self._desired),
        ):
            bus.subscribe(self._topic(leaf), receive_leaf)
        bus.subscribe(topics.cluster_wide(identity.cluster, "mode"), self._mode)
        bus.on_connect(self._connected)

    def presence(self, connection: int) -> Presence:
        """Return the last will of the ``connection``-th try of this run; ``here`` waits for the name."""
        self._connections = connection
        return Presence(topic=self._topic("online"), here=b"", will=encode(self._online(is_online=False)))

    def tell(self, kind: str, reason: str) -> None:
        """Log that something happened, and publish it once."""
        log.info(kind, reason=reason)
        self._seq += 1
        event = Event(
            cluster=self._identity.cluster,
            node=self._identity.node,
            epoch=self._identity.epoch,
            seq=self._seq,
            sent_at=self._clock.wall(),
            kind=kind,
            reason=reason[:1_000],
        )
        self._bus.tell(self._topic(f"event/{kind}"), encode(event))
        self._changed.set()

    def glance(self) -> None:
        """Look soon whether there is something new to publish."""
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled; raises NameTaken when another host's agent answers to this name."""
        while True:
            self._settle()
            self._publish()
            try:
                async with asyncio.timeout(GLANCE_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()

    def farewell(self) -> None:
        """Say that this agent goes, on purpose; Ray and the node's holds stay as they are."""
        if self.name.standing is Standing.SETTLED:
            self._bus.keep(self._topic("online"), encode(self._online(is_online=False)))

    def _settle(self) -> None:
        before = self.name.standing
        self.name = namesake.passed(self.name, self._clock.now())
        if self.name.standing is Standing.TAKEN:
            raise NameTaken(
                f"node name {self._identity.node!r} is in use by the agent on {self.name.other}; "
                "give this node its own name, or stop that agent"
            )
        if self.name.standing is Standing.ASKING and before is not Standing.ASKING:
            self.tell(namesake.CLAIM, self._identity.host)
        if self.name.standing is Standing.SETTLED and before is not Standing.SETTLED:
            self._say_online()
            while self._waiting_desired:
                self._obey(self._waiting_desired.popleft())

    def _topic(self, leaf: str) -> str:
        return topics.node(self._identity.cluster, self._identity.node, leaf)

    def _online(self, *, is_online: bool) -> Online:
        return Online(
            cluster=self._identity.cluster,
            node=self._identity.node,
            epoch=self._identity.epoch,
            conn=self._connections,
            online=is_online,
            host=self._identity.host,
        )

    def _say_online(self) -> None:
        self._bus.keep(self._topic("online"), encode(self._online(is_online=True)))

    def _connected(self) -> None:
        self.name = namesake.connected(self.name, self._clock.now())
        if self.name.standing is Standing.SETTLED:
            self._say_online()
        self._told_key = None
        self._changed.set()

    # What arrives. Each handler drops what it cannot read, counted by reason.

    def _own_online(self, message: Message) -> None:
        online = self._decoded(message, Online)
        if online is None:
            return
        settled = self.name.standing is Standing.SETTLED
        if settled and not message.retained and (online.host, online.online) != (self._identity.host, True):
            self._say_online()
            return
        self.name = namesake.heard(self.name, online, retained=message.retained)
        self._changed.set()

    def _claim(self, message: Message) -> None:
        event = self._decoded(message, Event)
        if (
            event is not None
            and event.reason != self._identity.host
            and self.name.standing is Standing.SETTLED
        ):
            log.warning("name.claimed", host=event.reason)
            self._say_online()

    def _own_state(self, message: Message) -> None:
        if not (message.retained and self._was_new):
            return
        state = self._decoded(message, State)
        if state is None or state.epoch >= self._identity.epoch:
            return
        self._was_new = False
        hold = Hold(
            id=HoldId(f"repair-{self._identity.epoch}"),
            owner=holds.REPAIR,
            kind=HoldKind.CORDON,
            reason="state lost: this node ran before and its store is gone; look at it, then undrain",
            since=self._clock.wall(),
        )
        if self._steward.remember(self._steward.memory.with_holds(hold)):
            self.tell("hold.set", hold.reason)

    def _desired(self, message: Message) -> None:
        if self.name.standing is Standing.SETTLED:
            self._obey(message.payload)
        else:
            self._waiting_desired.append(message.payload)

    def _obey(self, payload: bytes) -> None:
        obeyed = receive_desired(self._steward.memory, payload, self._identity)
        if obeyed.refused is not None:
            self.desired_refused[obeyed.refused.why] += 1
            if obeyed.refused != self.refused:
                log.warning("desired.refused", why=obeyed.refused.why, term=obeyed.refused.term)
            self.refused = obeyed.refused
        elif self._steward.remember(obeyed.memory):
            self.refused = None
        self._changed.set()

    def _mode(self, message: Message) -> None:
        self._steward.remember(receive_mode(self._steward.memory, message.payload, self._identity))

    def _decoded(self, message: Message, kind: type[D]) -> D | None:
        try:
            return decode(message.payload, kind)
        except WireInvalid as error:
            self.dropped[error.reason] += 1
            return None

    # What is told.

    def _publish(self) -> None:
        if self.name.standing is not Standing.SETTLED:
            return
        now = self._clock.now()
        self._look_at_work(now)
        health = self._steward.health()
        told = Told(
            identity=self._identity,
            seq=self._seq + 1,
            wall=self._clock.wall(),
            station=self._steward.station,
            memory=self._steward.memory,
            snapshot=health.snapshot,
            verdict=self._steward.verdict(),
            of_gpus=health.verdict,
            witness=self._witness,
            work=tuple(worker.title for worker in self._work or ()),
            ray_version=self._versions.ray if self._versions else "",
            python_version=self._versions.python if self._versions else "",
            refused=self.refused,
        )
        state = compose(told, self._rules)
        key = _what_matters(state)
        if key == self._told_key and now - self._told_at < HEARTBEAT_S:
            return
        self._seq += 1
        self._told_key, self._told_at = key, now
        self._bus.keep(self._topic("state"), encode(state))

    def _look_at_work(self, now: float) -> None:
        if now - self._witnessed_at < WITNESS_S:
            return
        self._witnessed_at = now
        if self._versions is None:
            with contextlib.suppress(JoinFailed):
                self._versions = self._raylets.versions()
        raylet = self._steward.memory.raylet
        probe = self._steward.health().snapshot.probe
        read = [g.pids for g in probe.gpus] if probe else []
        pids = {pid for group in read if group is not None for pid in group}
        self._work = () if raylet is None else self._raylets.work(raylet)
        self._witness = Witness(
            ray_workers=None if self._work is None else len(self._work),
            foreign_gpu_processes=None
            if probe is None or None in read
            else sum(1 for pid in pids if raylet is None or not self._raylets.owns(raylet, pid)),
        )


def _what_matters(state: State) -> object:
    """Return what makes a state worth telling at once; measurements inside reasons do not."""
    return (
        state.phase,
        state.reason if state.phase is not Phase.MEMBER else "",
        state.serve,
        state.verdict.severity,
        state.verdict.action,
        tuple(f.key for f in state.verdict.findings),
        state.holds,
        bool(state.wants_drain),
        tuple((g.uuid, g.present, g.healthy) for g in state.gpus),
        state.gpus_counted,
        state.witness,
        state.blockers,
        state.latecomers,
        state.obstacles,
        state.ray_node_id,
        state.head_reachable,
        state.observed,
        state.refused,
    )
