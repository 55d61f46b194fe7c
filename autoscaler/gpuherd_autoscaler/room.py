"""How many more nodes of a pool may be asked to serve now, and which bound that is. Pure.

The bounds of a pool (``max``, ``starting_max``, ``starts_per_minute``) and those of the whole herd
(``[quota]``). A node that was released and has not drained yet costs no start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuherd.names import PoolName
from gpuherd_autoscaler.fleet import Fleet
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """``nodes`` more may be asked; the rest tells which bound that is."""

    nodes: int
    rule: str
    figure: float
    words: str
    """Such as ``its max of 8``."""


@dataclass(slots=True)
class Asked:
    """What one decision has asked for so far, by pool: nodes, and starts among them."""

    nodes: dict[PoolName, int] = field(default_factory=dict)
    starts: dict[PoolName, int] = field(default_factory=dict)

    def add(self, pool: PoolName, *, is_start: bool) -> None:
        """Count one more node."""
        self.nodes[pool] = self.nodes.get(pool, 0) + 1
        self.starts[pool] = self.starts.get(pool, 0) + is_start


def room(fleet: Fleet, pool: Pool, asked: Asked, *, is_start: bool = True) -> Room:
    """Return the tightest bound; ``is_start`` False = for a node that was released and is still there."""
    bounds = [
        *_lasting(fleet, pool, asked.nodes),
        *(_starting(fleet, pool, asked.starts) if is_start else ()),
    ]
    least: Room = min(bounds, key=lambda bound: bound.nodes)
    return replace(least, nodes=max(0, least.nodes))


def rooms(fleet: Fleet, asked: Asked) -> dict[str, int]:
    """Return how many nodes of each pool a packing may open, released ones included."""
    return {pool.name: _openable(fleet, pool, asked) for pool in fleet.pools.values()}


def exceeds_quota(fleet: Fleet, opened: Mapping[PoolName, int]) -> bool:
    """Say whether a packing opens more than the herd shares, though each pool has its own room."""
    quota = fleet.limits.quota
    total = {name: fleet.bounded.get(name, 0) + opened.get(name, 0) for name in fleet.pools}
    gpus = sum(count * fleet.pools[name].gpus_per_node for name, count in total.items())
    is_over = quota.nodes is not None and sum(total.values()) > quota.nodes
    return bool(opened) and (is_over or (quota.gpus is not None and gpus > quota.gpus))


def within_quota(fleet: Fleet, asked: Asked, opened: Mapping[PoolName, int]) -> dict[str, int]:
    """Return the rooms again, cut so that no choice of pools exceeds what the herd shares.

    Each pool in order of name keeps what it ``opened`` in a packing, as far as the quota reaches.
    """
    cut = {}
    taken = Asked(nodes=dict(asked.nodes), starts=dict(asked.starts))
    for pool in fleet.pools.values():
        cut[pool.name] = min(opened.get(pool.name, 0), _openable(fleet, pool, taken))
        taken.nodes[pool.name] = taken.nodes.get(pool.name, 0) + cut[pool.name]
    return {str(name): nodes for name, nodes in cut.items()}


def _openable(fleet: Fleet, pool: Pool, asked: Asked) -> int:
    starts = room(fleet, pool, asked).nodes
    released = sum(m.standing is Standing.RELEASED for m in fleet.of(pool))
    again = max(0, released - (asked.nodes.get(pool.name, 0) - asked.starts.get(pool.name, 0)))
    return min(room(fleet, pool, asked, is_start=False).nodes, starts + again)


def _lasting(fleet: Fleet, pool: Pool, asked: Mapping[PoolName, int]) -> Iterator[Room]:
    """Yield what bounds the nodes that serve."""
    mine = asked.get(pool.name, 0)
    left = pool.ceiling - fleet.bounded.get(pool.name, 0) - mine
    yield Room(nodes=left, rule="max", figure=pool.ceiling, words=fleet.max_words(pool))
    quota = fleet.limits.quota
    total = {name: fleet.bounded.get(name, 0) + asked.get(name, 0) for name in fleet.pools}
    if quota.nodes is not None:
        words = f"the quota of {quota.nodes} nodes over all pools"
        left = quota.nodes - sum(total.values())
        yield Room(nodes=left, rule="quota_nodes", figure=quota.nodes, words=words)
    if quota.gpus is not None and pool.gpus_per_node > 0:
        words = f"the quota of {quota.gpus} GPUs over all pools"
        used = sum(count * fleet.pools[name].gpus_per_node for name, count in total.items())
        left = (quota.gpus - used) // pool.gpus_per_node
        yield Room(nodes=left, rule="quota_gpus", figure=quota.gpus, words=words)


def _starting(fleet: Fleet, pool: Pool, starts: Mapping[PoolName, int]) -> Iterator[Room]:
    """Yield what bounds the nodes that are on their way at once, or start within a minute."""
    mine = starts.get(pool.name, 0)
    if pool.starting_max is not None:
        booting = sum(m.standing is Standing.BOOTING for m in fleet.of(pool))
        words = f"its {pool.starting_max} nodes that may be starting at once"
        left = pool.starting_max - booting - mine
        yield Room(nodes=left, rule="starting_max", figure=pool.starting_max, words=words)
    if pool.starts_per_minute is not None:
        names = {m.node.name for m in fleet.of(pool)}
        started = sum(name in names for name in fleet.memory.started_at)
        words = f"its {pool.starts_per_minute} starts a minute"
        left = pool.starts_per_minute - started - mine
        yield Room(nodes=left, rule="starts_per_minute", figure=pool.starts_per_minute, words=words)
