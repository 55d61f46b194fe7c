"""How memory moves on by one look at the fleet: clocks of idleness and waiting, polls, marks. Pure."""

from dataclasses import replace

from gpuherd.ray import ClusterSight
from gpuherd_autoscaler.idleness import doubt
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import MINUTE_S, Memory, Poll
from gpuherd_autoscaler.packing import merged
from gpuherd_autoscaler.snapshot import Snapshot, Sourced


def observe(memory: Memory, snapshot: Snapshot, limits: Limits, now: float) -> Memory:
    """Return the memory after this look. A gap between looks starts the idle clocks anew."""
    head_is_fresh = snapshot.cluster.fresh is not None
    is_continuous = memory.at is not None and now - memory.at <= limits.sample_gap_s
    idle, waiting = {}, {}
    for name, node in sorted(snapshot.nodes.items()):
        if doubt(node, head_is_fresh=head_is_fresh, limits=limits) is None:
            idle[name] = memory.idle_since.get(name, now) if is_continuous else now
        if node.serve and not (node.is_in_ray or (not head_is_fresh and name not in memory.waiting_since)):
            waiting[name] = memory.waiting_since.get(name, now)
    asked = frozenset(name for name, node in snapshot.nodes.items() if node.serve)
    turned_on = {snapshot.nodes[name].pool: now for name in asked - memory.asked if memory.at is not None}
    started = {name: at for name, at in memory.started_at.items() if now - at < MINUTE_S}
    if memory.at is not None:
        fresh = sorted(asked - memory.asked - memory.in_ray)
        started.update(dict.fromkeys(fresh, now))
    last, before = _polls(memory, snapshot.cluster)
    return replace(
        memory,
        at=now,
        idle_since=idle,
        waiting_since=waiting,
        asked=asked,
        in_ray=frozenset(name for name, node in snapshot.nodes.items() if node.is_in_ray),
        turned_on_at={**memory.turned_on_at, **turned_on},
        started_at=started,
        last_poll=last,
        poll_before=before,
    )


def _polls(memory: Memory, cluster: Sourced[ClusterSight]) -> tuple[Poll | None, Poll | None]:
    """Two looks at one reading of the head are one poll."""
    sight = cluster.fresh
    if sight is None or cluster.read_at is None:
        return memory.last_poll, memory.poll_before
    if memory.last_poll is not None and memory.last_poll.read_at == cluster.read_at:
        return memory.last_poll, memory.poll_before
    counts = tuple((shape.resources, shape.count) for shape in merged(sight.pending))
    return Poll(read_at=cluster.read_at, counts=counts), memory.last_poll
