"""Keeps on the broker what the ledger says, and nothing else.

Nothing is decided here, and the ledger is the only way in: what was not committed cannot be published.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gpuherd.bus import Bus
from gpuherd.names import ClusterName, NodeName
from gpuherd.shell import logs
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Roster, ScalerState
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.ledger import Ledger
from gpuherd_autoscaler.orders import has_obeyed

log = logs.get("gpuherd.autoscaler")

_NO_RACKS: Final[Mapping[NodeName, str]] = MappingProxyType({})
LAG_S: Final = 10.0
"""How long a node may lag behind its order before the order is published again."""


class Publisher:
    """Publishes committed orders, the roster and the scaler's state. Never raises because of the broker."""

    def __init__(
        self,
        bus: Bus,
        ledger: Ledger,
        cluster: ClusterName,
        *,
        leader: str = "",
        racks: Mapping[NodeName, str] = _NO_RACKS,
    ) -> None:
        self._why_silent: Callable[[], str] = str
        self._bus = bus
        self._ledger = ledger
        self._cluster = cluster
        self._leader = leader
        self._racks = racks
        self._published_at: dict[NodeName, float] = {}
        self._roster: tuple[int, tuple[NodeName, ...]] | None = None
        self._roster_version = 0

    def silence_by(self, why_silent: Callable[[], str]) -> None:
        """Publish nothing while ``why_silent`` gives a reason: what another leader retains must stand."""
        self._why_silent = why_silent

    def offer(self, node: NodeName, *, now: float) -> None:
        """Make the node's committed order its retained document; a node without one is passed over."""
        order = self._ledger.orders.get(node)
        if order is None or self._why_silent():
            return
        self._bus.keep(topics.node(self._cluster, node, "desired"), order.payload)
        self._published_at[node] = now

    def offer_all(self, nodes: Sequence[NodeName], *, now: float) -> None:
        """Publish the order of each of these nodes."""
        for node in nodes:
            self.offer(node, now=now)

    def offer_lagging(self, nodes: Sequence[NodeName], inventory: Inventory, *, now: float) -> None:
        """Publish again what a node has not obeyed within LAG_S of the last time."""
        for node in nodes:
            order = self._ledger.orders.get(node)
            since = self._published_at.get(node)
            if order is None or (since is not None and now - since < LAG_S):
                continue
            if not has_obeyed(inventory.state(node), order.mark):
                log.debug("order.offered_again", node=node, generation=order.generation)
                self.offer(node, now=now)

    def tell_roster(self, names: tuple[NodeName, ...]) -> None:
        """Keep the roster of expected nodes current; unchanged ones are not published again."""
        now = (self._ledger.term, names)
        if now == self._roster:
            return
        self._roster = now
        self._roster_version += 1
        document = Roster(
            cluster=self._cluster,
            term=self._ledger.term,
            version=self._roster_version,
            names=names,
            racks={name: rack for name in names if (rack := self._racks.get(name))},
        )
        self._bus.keep(topics.cluster_wide(self._cluster, "roster"), encode(document))

    def tell_state(self, *, mode: str, decision: str, wall: float) -> None:
        """Keep the scaler's own state current."""
        document = ScalerState(
            cluster=self._cluster,
            leader=self._leader,
            term=self._ledger.term,
            mode=mode,
            decision=decision[:1_000],
            sent_at=wall,
        )
        self._bus.keep(topics.cluster_wide(self._cluster, "scaler/state"), encode(document))
