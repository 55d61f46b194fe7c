"""Demand to act on: what persisted, without what no pool could ever take. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuherd.ray import ClusterSight, Gang, Shape, Strategy
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.packing import can_take, merged, units
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.standing import promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Pending requests by shape. ``lasting`` was there at two polls at least; both exclude the infeasible."""

    pending: tuple[Shape, ...] = ()
    lasting: tuple[Shape, ...] = ()
    infeasible: tuple[Shape, ...] = ()
    gangs: tuple[Gang, ...] = ()
    """Pending placement groups that some pool could take, bundle by bundle. They count at once."""
    requested: tuple[Shape, ...] = ()
    """What the cluster shall have room for, busy or not (``request_resources()``)."""
    deferred: tuple[Shape, ...] = ()
    """Requests that can wait for a window that is not open; they are in none of the others."""
    told: tuple[Shape, ...] = ()
    """All that is pending, as the head told."""

    @property
    def waiting(self) -> tuple[Shape, ...]:
        """Return every pending request, bundles of gangs too."""
        return merged((*self.pending, *(shape for gang in self.gangs for shape in gang.shapes)))


def read(memory: Memory, sight: ClusterSight | None, pools: Sequence[Pool], *, waits: str = "") -> Demand:
    """Return the demand after the newest poll; none when the head tells nothing of the present.

    Requests that name the resource ``waits`` are set aside; empty = none are.

    A request counts as lasting when the poll before knew it too: tasks that just start are told as
    pending and as running for a moment (ray#36926).
    """
    if sight is None or memory.last_poll is None:
        return Demand()
    every = tuple(Shape(resources=key, count=count) for key, count in memory.last_poll.counts)
    single = tuple(shape for shape in every if not _names(shape, waits))
    gangs = tuple(gang for gang in sight.gangs if not any(_names(shape, waits) for shape in gang.shapes))
    ganged = tuple(shape for gang in sight.gangs for shape in gang.shapes)
    parts = tuple(shape for gang in gangs for shape in units(gang))
    infeasible = tuple(
        s for s in merged((*single, *parts, *sight.requested)) if not _is_feasible(s, sight, pools)
    )
    impossible = {shape.resources for shape in infeasible}
    pending = tuple(shape for shape in single if shape.resources not in impossible)
    before = dict(memory.poll_before.counts) if memory.poll_before is not None else {}
    lasting = tuple(
        Shape(resources=shape.resources, count=min(shape.count, before[shape.resources]))
        for shape in pending
        if before.get(shape.resources, 0) > 0
    )
    return Demand(
        pending=pending,
        lasting=lasting,
        infeasible=infeasible,
        gangs=tuple(g for g in gangs if not any(s.resources in impossible for s in units(g))),
        requested=tuple(s for s in sight.requested if s.resources not in impossible),
        deferred=merged(shape for shape in (*every, *ganged) if _names(shape, waits)),
        told=merged((*every, *ganged)),
    )


def _names(shape: Shape, resource: str) -> bool:
    return bool(resource) and any(name == resource for name, _ in shape.resources)


def _is_feasible(shape: Shape, sight: ClusterSight, pools: Sequence[Pool]) -> bool:
    if any(can_take(promised(pool), shape) for pool in pools):
        return True
    totals = {tuple(sorted(node.total.items())) for node in sight.nodes if node.is_alive}
    return any(can_take(dict(total), shape) for total in totals)


def gang_words(gang: Gang) -> str:
    """Return the gang as people read it, such as ``the group of 2 x {GPU: 8}, each on its own node``."""
    how = {
        Strategy.STRICT_SPREAD: ", each on its own node",
        Strategy.STRICT_PACK: ", all on one node",
    }.get(gang.strategy, "")
    return f"the group of {words(gang.shapes)}{how}"


def words(shapes: Iterable[Shape]) -> str:
    """Return the shapes as people read them, such as ``8 x {GPU: 1}``."""
    return ", ".join(
        f"{s.count} x {{{', '.join(f'{name}: {amount:g}' for name, amount in s.resources)}}}" for s in shapes
    )
