"""What was heard of each node, folded into one view per expected node. Does not decide or do I/O.

Documents may come late, twice, or from an earlier run: order is by (epoch, seq) and (epoch, conn).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuherd.names import NodeName
from gpuherd.ray import ClusterSight
from gpuherd.wire.documents import Online, State
from gpuherd_autoscaler.pools import Limits
from gpuherd_autoscaler.snapshot import NodeView, Snapshot, Sourced


@dataclass(slots=True)
class Inventory:
    """Feed documents in, take snapshots out."""

    _states: dict[NodeName, State] = field(default_factory=dict)
    _heard_at: dict[NodeName, float] = field(default_factory=dict)
    _onlines: dict[NodeName, Online] = field(default_factory=dict)

    def receive_state(self, document: State, *, at: float, retained: bool = False) -> bool:
        """Take a state document unless a newer one is here; say whether it was taken.

        A retained one tells facts and no time: nobody knows how long the broker has had it.
        """
        raise NotImplementedError

    def receive_online(self, document: Online) -> bool:
        """Take a presence unless a newer one is here; a will never touches the state."""
        raise NotImplementedError

    def state(self, name: NodeName) -> State | None:
        """Return the newest state document of a node."""
        return self._states.get(name)

    def online(self, name: NodeName) -> Online | None:
        """Return the newest presence of a node."""
        return self._onlines.get(name)

    def snapshot(
        self,
        *,
        cluster: Sourced[ClusterSight],
        limits: Limits,
        orders: Mapping[NodeName, bool],
        now: float,
    ) -> Snapshot:
        """Return the picture at ``now`` of every node listed in a pool.

        ``orders`` is what the ledger's last desired document of each node asks (serve or not); a node
        without any is taken to be asked what it does, so that a first start changes nothing.
        """
        raise NotImplementedError


def views(nodes: Sequence[NodeView]) -> dict[NodeName, NodeView]:
    """Return the views by name, in order of name."""
    return {view.name: view for view in sorted(nodes, key=lambda v: v.name)}
