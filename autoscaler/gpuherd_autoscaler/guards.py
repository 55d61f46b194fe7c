"""What forbids taking anything away: FROZEN and settling. Pure; neither ever forbids a scale-up.

FROZEN guards against our own blindness and against a common cause; settling against a head that was
restarted empty and tells, quite freshly, of no nodes and no demand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuherd.names import NodeName
from gpuherd.phases import Lifecycle
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot
from gpuherd_autoscaler.standing import CONFINING, COUNTED, Member, on_way_out

SIGHT_RATIO: Final = 0.5
SMALLEST_WITH_SIGHT: Final = 3
BAD_RATIO: Final = 0.2
REJOINED_RATIO: Final = 0.9
_BAD: Final = frozenset(
    {Lifecycle.QUARANTINED, Lifecycle.REPAIRING, Lifecycle.FAILED, Lifecycle.LOST, Lifecycle.UNREACHABLE}
)


def expected_on(nodes: Mapping[NodeName, NodeView]) -> tuple[NodeView, ...]:
    """Return E: the nodes ever heard of or ordered, not leaving and not retired.

    A listed host that never spoke is shown as missing and does not count, else a pool that lists the
    hosts of next year would be frozen for ever.
    """
    return tuple(
        n for n in nodes.values() if n.known and n.lifecycle is not Lifecycle.RETIRED and not on_way_out(n)
    )


def watch(memory: Memory, snapshot: Snapshot, limits: Limits, now: float) -> Memory:
    """Return the memory with the guard's marks moved on by this look."""
    expected = expected_on(snapshot.nodes)
    bad = frozenset(n.name for n in snapshot.nodes.values() if _is_bad(n))
    turned = {name: at for name, at in memory.turned_bad_at.items() if now - at < limits.thaw_s}
    newly = sorted(bad - memory.bad) if memory.at is not None else ()
    turned.update({name: now for name in newly if snapshot.nodes[name].known})
    moved = replace(memory, bad=bad, turned_bad_at=turned)
    moved = _watch_session(moved, snapshot, limits, now)
    why = _grounds(snapshot, expected, turned, limits)
    if why:
        return replace(moved, frozen_why=why, sound_since=None)
    if not memory.frozen_why:
        return moved
    since = now if memory.sound_since is None else memory.sound_since
    if now - since >= limits.thaw_s:
        return replace(moved, frozen_why="", sound_since=None)
    return replace(moved, sound_since=since)


def _is_bad(node: NodeView) -> bool:
    return node.lifecycle in _BAD or node.action in CONFINING


def _grounds(
    snapshot: Snapshot, expected: Sequence[NodeView], turned: Mapping[NodeName, float], limits: Limits
) -> str:
    if snapshot.cluster.fresh is None:
        if snapshot.cluster.freshness is Freshness.SUSPECT:
            return f"Ray's head is not believed: {snapshot.cluster.error}"
        return "Ray's head tells nothing of the present"
    seen = sum(1 for n in expected if n.age_s is not None and n.age_s <= limits.state_fresh_s)
    if len(expected) >= SMALLEST_WITH_SIGHT and seen <= SIGHT_RATIO * len(expected):
        return f"only {seen} of {len(expected)} expected nodes are in sight"
    if len(turned) > max(1.0, BAD_RATIO * len(expected)):
        return f"{len(turned)} of {len(expected)} nodes turned bad within {limits.thaw_s:g} s"
    counted = {node.name for node in expected}
    for rack in limits.racks:
        members = counted.intersection(rack.names)
        if len(members) > 1 and members <= turned.keys():
            return f"all {len(members)} nodes of rack {rack.name} turned bad within {limits.thaw_s:g} s"
    return ""


def _watch_session(memory: Memory, snapshot: Snapshot, limits: Limits, now: float) -> Memory:
    sight = snapshot.cluster.fresh
    if sight is None:
        return memory
    if sight.session != memory.session:
        return replace(memory, session=sight.session, settling_since=now)
    if memory.settling_since is not None and now - memory.settling_since >= limits.settle_s:
        return replace(memory, settling_since=None)
    return memory


def settle(memory: Memory, members: Sequence[Member]) -> Memory:
    """End settling once nine tenths of the nodes that should serve are in Ray again."""
    if memory.settling_since is None:
        return memory
    should = [m for m in members if m.standing in COUNTED]
    back = sum(m.node.is_in_ray for m in should)
    return replace(memory, settling_since=None) if back >= REJOINED_RATIO * len(should) else memory


def forbids(memory: Memory, limits: Limits, now: float) -> str:
    """Return why nothing may be taken away now, or an empty string."""
    if memory.frozen_why and memory.sound_since is None:
        return f"frozen: {memory.frozen_why}"
    if memory.frozen_why and memory.sound_since is not None:
        sound_s = now - memory.sound_since
        return f"frozen: {memory.frozen_why}; sound for {sound_s:.0f} of {limits.thaw_s:g} s"
    if memory.settling_since is not None:
        spent_s = now - memory.settling_since
        return f"settling: Ray's head has a new session, {spent_s:.0f} of {limits.settle_s:g} s"
    return ""
