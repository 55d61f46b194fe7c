"""What was heard of each node, folded into one view per expected node. Does not decide or do I/O.

Documents may come late, twice, or from an earlier run: order is by (epoch, seq) and (epoch, conn).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName, PoolName
from gpuherd.ray import ClusterSight, RayNode
from gpuherd.wire.documents import Online, State, Witness
from gpuherd_autoscaler import pools
from gpuherd_autoscaler.lifecycle import Sighting, place
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.snapshot import NodeView, Snapshot, Sourced


@dataclass(slots=True)
class Inventory:
    """Feed documents in, take snapshots out."""

    _states: dict[NodeName, State] = field(default_factory=dict)
    _heard_at: dict[NodeName, float] = field(default_factory=dict)
    _onlines: dict[NodeName, Online] = field(default_factory=dict)

    def receive_state(self, document: State, *, at: float, retained: bool = False) -> bool:
        """Take a state document unless a newer one is here; say whether it was taken.

        A retained one tells facts and no time: nobody knows how long the broker has had it. The same
        document heard again changes nothing, not even its age.
        """
        here = self._states.get(document.node)
        if here is not None and (document.epoch, document.seq) <= (here.epoch, here.seq):
            return False
        self._states[document.node] = document
        if retained:
            self._heard_at.pop(document.node, None)
        else:
            self._heard_at[document.node] = at
        return True

    def receive_online(self, document: Online) -> bool:
        """Take a presence unless a newer one is here; a will never touches the state.

        Of one connection the last word counts, which is its will: a broker sends it once.
        """
        here = self._onlines.get(document.node)
        if here is not None and (document.epoch, document.conn) < (here.epoch, here.conn):
            return False
        self._onlines[document.node] = document
        return True

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
        listed = pools.index(limits.pools)
        in_ray = by_name(cluster.value.nodes if cluster.value else (), self._states)
        nodes = {}
        for name in sorted(listed):
            age_s = None if name not in self._heard_at else max(0.0, now - self._heard_at[name])
            sighting = Sighting(
                pool=listed[name],
                state=self._states.get(name),
                is_fresh=age_s is not None and age_s <= limits.state_fresh_s,
                age_s=age_s,
                ray=in_ray.get(name),
                head_is_fresh=cluster.fresh is not None,
                order=orders.get(name),
            )
            nodes[name] = self._view(name, sighting)
        spoke = {*self._states, *self._onlines}
        return Snapshot(at=now, cluster=cluster, nodes=nodes, uninvited=tuple(sorted(spoke - set(listed))))

    def _view(self, name: NodeName, sighting: Sighting) -> NodeView:
        lifecycle, reason = place(sighting)
        known = sighting.order is True or sighting.ray is not None or name in self._onlines
        bare = NodeView(
            name=name,
            pool=sighting.pool,
            lifecycle=lifecycle,
            reason=reason,
            serve=sighting.is_asked,
            known=known,
            ray=sighting.ray,
            online=self._presence(name),
        )
        return bare if sighting.state is None else _with_facts(bare, sighting.state, sighting.age_s)

    def _presence(self, name: NodeName) -> bool | None:
        """Return whether it is online; None when its newest presence is of an earlier run than its state."""
        online, state = self._onlines.get(name), self._states.get(name)
        if online is None or (state is not None and online.epoch < state.epoch):
            return None
        return online.online


def by_name(nodes: Iterable[RayNode], states: Mapping[NodeName, State]) -> dict[NodeName, RayNode]:
    """Return Ray's entry for each of our names.

    Of several, a live one counts before a dead one, then the one that the node's agent names: a node
    that rejoined is still listed under its old id for a while.
    """
    found: dict[NodeName, RayNode] = {}
    for node in nodes:
        if node.name is None:
            continue
        here = found.get(node.name)
        if here is None or _weight(node, states) > _weight(here, states):
            found[node.name] = node
    return found


def _weight(node: RayNode, states: Mapping[NodeName, State]) -> tuple[bool, bool, str]:
    state = states.get(node.name) if node.name is not None else None
    return node.is_alive, state is not None and state.ray_node_id == node.id, node.id


def _with_facts(bare: NodeView, state: State, age_s: float | None) -> NodeView:
    """Return the view with what the node's own state document tells."""
    return NodeView(
        name=bare.name,
        pool=PoolName(bare.pool),
        lifecycle=bare.lifecycle,
        reason=bare.reason,
        serve=bare.serve,
        known=True,
        ray=bare.ray,
        online=bare.online,
        phase=state.phase,
        age_s=age_s,
        severity=state.verdict.severity,
        action=state.verdict.action,
        verdict=state.verdict.reason,
        wants_drain=state.wants_drain,
        latecomers=state.latecomers,
        holds=state.holds,
        gpus_declared=state.gpus_declared,
        gpus_counted=state.gpus_counted,
        gpus_usable=sum(gpu.present and gpu.healthy for gpu in state.gpus) if state.gpus else None,
        witness=Witness(
            ray_workers=state.witness.ray_workers, foreign_gpu_processes=state.witness.foreign_gpu_processes
        ),
        ray_node_id=state.ray_node_id,
    )
