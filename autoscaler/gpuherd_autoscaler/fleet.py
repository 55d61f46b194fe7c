"""The fleet at one decision: every member with its standing, and what growth and shrinking share. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuherd.health import Severity
from gpuherd.names import NodeName, PoolName
from gpuherd.ray import ClusterSight, RayNode, RayStatus
from gpuherd_autoscaler.asks import NOTHING, Ask
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.packing import Bin
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.standing import BOUNDED, Member, Standing, offers
from gpuherd_autoscaler.wishes import Wishes

_TAKING_WORK = (RayStatus.RUNNING, RayStatus.IDLE)
_BOOTING_TIER, _RELEASED_TIER, STANDBY_TIER = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Members in order of name; ``frozen`` says why nothing may be taken away, empty = it may."""

    members: tuple[Member, ...]
    pools: Mapping[PoolName, Pool]
    sight: ClusterSight | None
    """The head's reading when it is of the present."""
    memory: Memory
    limits: Limits
    now: float
    frozen: str
    asks: Mapping[PoolName, Ask] = field(default_factory=dict)
    """What triggers ask of each pool."""
    wishes: Wishes = field(default_factory=Wishes)
    """What people have set; ``pools`` have their bounds by it."""
    open_windows: frozenset[str] | None = frozenset()
    """None = not known."""
    by_name: Mapping[NodeName, Member] = field(init=False)
    by_pool: Mapping[PoolName, Sequence[Member]] = field(init=False)
    bounded: Mapping[PoolName, int] = field(init=False)
    """Nodes of each pool that count toward its max."""

    def __post_init__(self) -> None:
        by_pool: dict[PoolName, list[Member]] = {}
        for member in self.members:
            by_pool.setdefault(member.node.pool, []).append(member)
        bounded = {name: sum(m.standing in BOUNDED for m in members) for name, members in by_pool.items()}
        object.__setattr__(self, "by_name", {m.node.name: m for m in self.members})
        object.__setattr__(self, "by_pool", by_pool)
        object.__setattr__(self, "bounded", bounded)

    def of(self, pool: Pool) -> Sequence[Member]:
        """Return the members of a pool in order of name."""
        return self.by_pool.get(pool.name, ())

    def pool_of(self, member: Member) -> Pool:
        """Return the member's pool."""
        return self.pools[member.node.pool]

    def ask(self, pool: Pool) -> Ask:
        """Return what triggers ask of the pool."""
        return self.asks.get(pool.name, NOTHING)

    def spares(self, pool: Pool) -> int:
        """Return how many warm spares the pool keeps now."""
        return pool.spares(self.open_windows or ())

    def floor(self, pool: Pool) -> int:
        """Return below how many serving nodes the pool is not shrunk."""
        return max(pool.floor, min(self.ask(pool).nodes, pool.ceiling))

    def max_words(self, pool: Pool) -> str:
        """Return whose the upper bound of the pool is, such as ``its max of 8``."""
        size = self.wishes.size(pool.name)
        return f"its max of {pool.ceiling}" if size is None else f"the {size.nodes} set {size.wish.words}"

    def min_words(self, pool: Pool) -> str:
        """Return what keeps the pool from having fewer nodes, such as ``its min of 2``."""
        size = self.wishes.size(pool.name)
        if size is not None:
            return f"the {size.nodes} set {size.wish.words}"
        floor = self.floor(pool)
        return f"its min of {floor}" if floor == pool.floor else f"{floor} nodes: {self.ask(pool).why}"

    def idle_s(self, name: NodeName) -> float | None:
        """Return for how long the node was idle at every sample, None = it is not idle now."""
        since = self.memory.idle_since.get(name)
        return None if since is None else self.now - since

    def bins(self) -> Iterator[Bin]:
        """Yield what is free: serving first, then booting, released and standby nodes.

        Nodes of Ray that are none of ours, such as its head, count with what they have free. Draining and
        barred nodes offer nothing: a drained raylet never takes work again.
        """
        ours = {m.node.name for m in self.members}
        for node in self.sight.nodes if self.sight else ():
            if node.name not in ours and node.status in _TAKING_WORK:
                yield Bin(name=f"ray:{node.id}", free=node.available)
        for member in self.members:
            found = self._bin(member)
            if found is not None:
                yield found

    def whole_bins(self) -> Iterator[Bin]:
        """Yield what each node offers when nothing runs there: for room that is asked for, busy or not."""
        by_id = {f"ray:{node.id}": node for node in (self.sight.nodes if self.sight else ())}
        by_name = {m.node.name: m.node.ray for m in self.members if m.node.is_in_ray}
        for each in self.bins():
            ray = by_id.get(each.name) or by_name.get(NodeName(each.name))
            yield each if ray is None else replace(each, free=ray.total)

    def _bin(self, member: Member) -> Bin | None:
        node, group = member.node, member.node.pool
        match member.standing:
            case Standing.SERVING | Standing.UNSURE | Standing.BOOTING if node.is_in_ray:
                return Bin(name=node.name, free=_free(node.ray))
            case Standing.BOOTING | Standing.UNSURE:
                return Bin(name=node.name, free=offers(node, self.pool_of(member)), tier=_BOOTING_TIER)
            case Standing.RELEASED:
                return Bin(name=node.name, free=_free(node.ray), tier=_RELEASED_TIER, group=group, opens=True)
            case Standing.STANDBY:
                return Bin(
                    name=node.name,
                    free=offers(node, self.pool_of(member)),
                    tier=STANDBY_TIER,
                    rank=preference(member),
                    group=group,
                    opens=True,
                )
        return None


def preference(member: Member) -> int:
    """Return 0 for a sound node and more for a worse one; candidates are taken in this order."""
    severity = member.node.severity
    return 0 if severity is Severity.OK else severity.rank


def _free(node: RayNode | None) -> Mapping[str, float]:
    return node.available if node is not None and node.status in _TAKING_WORK else {}
