"""The agent's part in the gossip: publishes this node's record, tells edges, shows the fleet.

Gossip informs: nothing here drains, joins, stops or starts anything, and nothing here knows Ray.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import msgspec

from gpuherd import __version__
from gpuherd.bus import Bus, Message
from gpuherd.gossip.gossip import Gossip, Self
from gpuherd.gossip.identity import Identity as Speaker
from gpuherd.gossip.inputs import Publish, SetRoster
from gpuherd.gossip.outputs import (
    AdvertiseUnreachable,
    ClusterMismatch,
    EpochTaken,
    Event,
    Joined,
    NameConflict,
    NameTaken,
    PathFailed,
    RoleChanged,
    Superseded,
    VerdictChanged,
)
from gpuherd.gossip_rest import SeenFleet, seen
from gpuherd.gossip_settings import GossipSettings
from gpuherd.holds import is_planned
from gpuherd.shell import logs
from gpuherd.shell.gossip import GossipShell
from gpuherd.shell.gossip_keys import InsecureVerifier, load_or_make
from gpuherd.wire import topics
from gpuherd_agent import herald
from gpuherd_agent.doors import Identity, JoinFailed
from gpuherd_agent.gossip_record import GossipFacts, OwnState, body
from gpuherd_agent.node import Node, Outside
from gpuherd_agent.orders import receive_roster
from gpuherd_agent.state_document import gpus

GLANCE_S: Final = 1.0
_LOG_GAP_S: Final = 60.0

log = logs.get("gpuherd.agent")


class Gossiping:
    """Make it before the bus runs, then ``run`` it; ``leave`` before the end."""

    def __init__(
        self,
        identity: Identity,
        settings: GossipSettings,
        node: Node,
        bus: Bus,
        outside: Outside,
    ) -> None:
        """Read or make this node's key; raises ConfigInvalid when its file is of no use."""
        assert outside.state_dir is not None  # noqa: S101  a daemon has one
        signer = load_or_make(outside.state_dir / "gossip.key")
        clock, rng = outside.clock, outside.rng
        self._raylets = outside.raylets
        own = Self(
            cluster=identity.cluster,
            identity=Speaker(name=identity.node, key=signer.key),
            epoch=identity.epoch,
            advertised=settings.advertised,
        )
        self._identity = identity
        self._settings = settings
        self._node = node
        self._bus = bus
        self._clock = clock
        self._shell = GossipShell(
            Gossip(own, signer, InsecureVerifier(), rng), clock, on_event=self._on_event
        )
        self._counted = {"mismatches": 0, "conflicts": 0, "paths_failed": 0}
        self._logged_at: dict[object, float] = {}
        self._ended: asyncio.Future[None] | None = None
        self._ray = ""
        self._roster_mark: tuple[int, int] | None = None
        bus.subscribe(topics.cluster_wide(identity.cluster, "roster"), self._receive_roster)
        node.read_gossip = self.facts

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Take part while the block lasts; raises ConfigInvalid when the port is taken."""
        self._ended = asyncio.get_running_loop().create_future()
        await self._shell.start(self._settings.bind, self._settings.port, self._settings.seed_addresses)
        log.info("gossip.started", advertised=str(self._settings.advertised))
        try:
            yield
        finally:
            await self._shell.close()

    async def run(self) -> None:
        """Publish within ``listening`` until cancelled; raises NameTaken when the name is another's."""
        assert self._ended is not None  # noqa: S101  made by ``listening``
        with contextlib.suppress(JoinFailed):  # without Ray the others see a version that drifts
            self._ray = self._raylets.versions().ray
        while not self._ended.done():
            self._publish()
            await asyncio.wait((self._ended,), timeout=GLANCE_S)
        await self._ended

    async def leave(self) -> None:
        """Say that this agent goes, on purpose; at most 2 s."""
        await self._shell.leave()

    def fleet(self) -> SeenFleet:
        """Return the fleet as this node sees it now."""
        return seen(self._shell.view(), self._clock.now())

    def facts(self) -> GossipFacts:
        """Return what the page says."""
        counters = self._shell.core.counters
        return GossipFacts(
            view=self._shell.view(),
            counters=replace(counters, dropped=dict(counters.dropped)),
            lag_s=self._shell.lag.worst_s,
            streams_shed=self._shell.shed_streams,
            **self._counted,
        )

    def _publish(self) -> None:
        """Hand over what the node is; the core spreads it when it differs."""
        steward, health = self._node.steward, self._node.sensing.health
        memory = steward.memory
        if memory.roster and memory.roster_mark != self._roster_mark:
            self._roster_mark = memory.roster_mark
            self._shell.tell(SetRoster(racks={name: memory.racks.get(name, "") for name in memory.roster}))
        snapshot = health.snapshot
        driver = snapshot.probe.driver if snapshot.probe is not None else ""
        own = OwnState(
            verdict=health.verdict,
            phase=steward.station.phase,
            gpus_declared=snapshot.declared,
            gpus_present=sum(gpu.present for gpu in gpus(snapshot, health.verdict)),
            head_reachable=steward.station.head_reachable,
            broker_connected=self._bus.is_connected,
            versions=(f"agent {__version__}", f"driver {driver}", f"ray {self._ray}"),
            in_maintenance=any(is_planned(hold) for hold in memory.holds),
        )
        self._shell.tell(Publish(body=body(own)))

    def _receive_roster(self, message: Message) -> None:
        steward = self._node.steward
        steward.remember(receive_roster(steward.memory, message.payload, self._identity))

    def _on_event(self, event: Event) -> None:
        match event:
            case VerdictChanged():
                log.info(
                    "gossip.verdict", member=event.name, before=event.before.value, after=event.after.value
                )
            case Joined():
                log.debug("gossip.joined", member=event.name, address=str(event.address))
            case RoleChanged():
                log.info("gossip.role", before=event.before.value, after=event.after.value)
            case ClusterMismatch():
                self._count("mismatches", event.address, "gossip.cluster_mismatch", str(event.address))
            case NameConflict():
                self._count(
                    "conflicts", event.name, "gossip.name_conflict", f"{event.name} at {event.address}"
                )
            case PathFailed():
                self._count(
                    "paths_failed", event.name, "gossip.path_failed", f"{event.name} at {event.address}"
                )
            case AdvertiseUnreachable():
                self._tell(
                    "gossip.advertise_unreachable",
                    f"{event.told_by} cannot reach {event.advertised}: mend gossip.advertise or the firewall",
                )
            case EpochTaken():
                memory = self._node.steward.memory
                self._node.steward.remember(msgspec.structs.replace(memory, epoch=event.epoch))
            case NameTaken() | Superseded():
                self._end(f"node name {self._identity.node!r} is in use at {event.address}")
            case _:
                pass

    def _count(self, which: str, key: object, kind: str, about: str) -> None:
        self._counted[which] += 1
        now = self._clock.now()
        if now - self._logged_at.get((kind, key), -_LOG_GAP_S) >= _LOG_GAP_S:
            if len(self._logged_at) > 1_000:  # noqa: PLR2004  strangers must not fill the memory
                self._logged_at.clear()
            self._logged_at[(kind, key)] = now
            log.warning(kind, about=about, total=self._counted[which])

    def _tell(self, kind: str, reason: str) -> None:
        log.warning(kind, reason=reason)

    def _end(self, why: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(herald.NameTaken(why + "; give this node its own name"))
