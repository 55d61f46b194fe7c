"""What the scaler hears: Ray's head by polling, the nodes by the broker. Failures are values here.

Documents that are none are dropped and counted by reason; a topic must name the node that its document
names, so that one node cannot speak for another by mistake.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Final

from gpuherd.bus import Bus, Message
from gpuherd.errors import HeadUnreachable, WireInvalid
from gpuherd.names import ClusterName, NodeName
from gpuherd.ray import ClusterSight
from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd.wire import topics
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Online, State
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.snapshot import Freshness, Sourced

log = logs.get("gpuherd.autoscaler")

ReadHead = Callable[[], Awaitable[ClusterSight]]
"""Read the whole cluster from Ray's head; raises HeadUnreachable."""

ReadSight = Callable[[], Awaitable[Sourced[ClusterSight]]]

_LOG_GAP_S: Final = 60.0
_MAX_NAMES: Final = 10_000
_OLDER: Final = "older"
"""Counted and not logged: a broker may hand out what it kept, and a will of an earlier session comes late."""


class SightReader:
    """Polls the head with a deadline; what it cannot read is the last good value, marked failed."""

    def __init__(self, read: ReadHead, clock: Clock, *, deadline_s: float) -> None:
        self._read = read
        self._clock = clock
        self._deadline_s = deadline_s
        self._failing_since: float | None = None
        self.last: Sourced[ClusterSight] = Sourced(error="not read yet")

    async def read(self) -> Sourced[ClusterSight]:
        """Return the cluster as the head tells it now. Never raises but for cancellation."""
        try:
            async with asyncio.timeout(self._deadline_s):
                value = await self._read()
        except (HeadUnreachable, TimeoutError) as error:
            self._failed(str(error) or f"no answer within {self._deadline_s:g} s")
        else:
            self._succeeded(value)
        return self.last

    def _succeeded(self, value: ClusterSight) -> None:
        now = self._clock.now()
        if self._failing_since is not None:
            log.info("head.recovered", outage_s=round(now - self._failing_since, 1), session=value.session)
            self._failing_since = None
        self.last = Sourced(value=value, freshness=Freshness.FRESH, read_at=now)

    def _failed(self, why: str) -> None:
        if self._failing_since is None:
            self._failing_since = self._clock.now()
            log.warning("head.lost", error=why)
        self.last = replace(self.last, freshness=Freshness.FAILED, error=why)


class Inbox:
    """Takes the nodes' documents from the broker into the inventory and wakes the loop on news."""

    def __init__(
        self,
        inventory: Inventory,
        clock: Clock,
        cluster: ClusterName,
        *,
        on_news: Callable[[], None],
        listed: Iterable[NodeName] = (),
    ) -> None:
        """``listed`` are our own nodes: they are heard however many strangers speak."""
        self._inventory = inventory
        self._clock = clock
        self._cluster = cluster
        self._on_news = on_news
        self._logged_at: dict[str, float] = {}
        self._listed = frozenset(listed)
        self._strangers: set[NodeName] = set()
        self.garbage: Counter[str] = Counter()
        """Documents dropped, by reason."""

    def listen(self, bus: Bus) -> None:
        """Subscribe to every node's presence and state."""
        for leaf in ("online", "state"):
            bus.subscribe(topics.every_node(self._cluster, leaf), self.receive)

    def receive(self, message: Message) -> None:
        """Take one message; whatever it holds, nothing is raised."""
        place = topics.parse(message.topic, self._cluster)
        if place is None or not message.payload:
            return  # an empty payload clears a retained topic: it says nothing of the node
        try:
            self._take(*place, message)
        except WireInvalid as error:
            self._drop(error.reason, message.topic, error.detail)

    def _take(self, name: NodeName, leaf: str, message: Message) -> None:
        if leaf == "online":
            online = decode(message.payload, Online, max_bytes=4_096)
            _require_own_topic(online.cluster == self._cluster and online.node == name)
            self._require_room(name)
            if self._inventory.receive_online(online):
                self._on_news()
            else:
                self.garbage[_OLDER] += 1
            return
        state = decode(message.payload, State)
        _require_own_topic(state.cluster == self._cluster and state.node == name)
        self._require_room(name)
        before = self._inventory.state(name)
        taken = self._inventory.receive_state(state, at=self._clock.now(), retained=message.retained)
        if taken and _is_news(before, state):
            self._on_news()
        if before is not None and (state.epoch, state.seq) < (before.epoch, before.seq):
            self.garbage[_OLDER] += 1

    def _require_room(self, name: NodeName) -> None:
        """Bound what strangers can make us remember; a known node is always heard."""
        if name in self._listed or name in self._strangers:
            return
        if len(self._strangers) >= _MAX_NAMES:
            raise WireInvalid("too_many_names", f"more than {_MAX_NAMES} strangers spoke")
        self._strangers.add(name)

    def _drop(self, reason: str, topic: str, detail: str) -> None:
        self.garbage[reason] += 1
        now = self._clock.now()
        if now - self._logged_at.get(reason, -_LOG_GAP_S) < _LOG_GAP_S:
            return
        self._logged_at[reason] = now
        log.warning(
            "document.dropped", reason=reason, topic=topic[:200], detail=detail, total=self.garbage[reason]
        )


def _require_own_topic(is_own: bool) -> None:
    if not is_own:
        raise WireInvalid("wrong_topic", "the document names another node or cluster than its topic")


def _is_news(before: State | None, state: State) -> bool:
    """Say whether a decision could come out differently: heartbeats alone do not wake the loop."""
    if before is None or before.epoch != state.epoch:
        return True
    return (
        (before.phase, before.holds, before.observed, before.serve, before.wants_drain, before.witness)
        != (state.phase, state.holds, state.observed, state.serve, state.wants_drain, state.witness)
    ) or (before.verdict.severity, before.verdict.action) != (state.verdict.severity, state.verdict.action)
