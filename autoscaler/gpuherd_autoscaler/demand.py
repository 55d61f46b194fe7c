"""Demand to act on: what persisted, without what no pool could ever take. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuherd.ray import ClusterSight, Shape
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.packing import can_take
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.standing import promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Pending requests by shape. ``lasting`` was there at two polls at least; both exclude the infeasible."""

    pending: tuple[Shape, ...] = ()
    lasting: tuple[Shape, ...] = ()
    infeasible: tuple[Shape, ...] = ()
    told: tuple[Shape, ...] = ()
    """All of it, as the head told."""


def read(memory: Memory, sight: ClusterSight | None, pools: Sequence[Pool]) -> Demand:
    """Return the demand after the newest poll; none when the head tells nothing of the present.

    A request counts as lasting when the poll before knew it too: tasks that just start are told as
    pending and as running for a moment (ray#36926).
    """
    if sight is None or memory.last_poll is None:
        return Demand()
    told = tuple(Shape(resources=key, count=count) for key, count in memory.last_poll.counts)
    infeasible = tuple(shape for shape in told if not _is_feasible(shape, sight, pools))
    pending = tuple(shape for shape in told if shape not in infeasible)
    before = dict(memory.poll_before.counts) if memory.poll_before is not None else {}
    lasting = tuple(
        Shape(resources=shape.resources, count=min(shape.count, before[shape.resources]))
        for shape in pending
        if before.get(shape.resources, 0) > 0
    )
    return Demand(pending=pending, lasting=lasting, infeasible=infeasible, told=told)


def _is_feasible(shape: Shape, sight: ClusterSight, pools: Sequence[Pool]) -> bool:
    if any(can_take(promised(pool), shape) for pool in pools):
        return True
    totals = {tuple(sorted(node.total.items())) for node in sight.nodes if node.is_alive}
    return any(can_take(dict(total), shape) for total in totals)


def words(shapes: Iterable[Shape]) -> str:
    """Return the shapes as people read them, such as ``8 x {GPU: 1}``."""
    return ", ".join(
        f"{s.count} x {{{', '.join(f'{name}: {amount:g}' for name, amount in s.resources)}}}" for s in shapes
    )
