"""What a node does next, from its memory, its health and what it sees of Ray. Pure.

Level-triggered: each step looks at what is so and yields at most one act, so a crash at any point is
only a step that has to be made again. ``conclude`` takes in what an act came to.
"""

from dataclasses import replace
from typing import Final

import msgspec

from gpuherd import holds
from gpuherd.health import Action, Severity
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId
from gpuherd.phases import Phase
from gpuherd_agent import draining, moves, shrink, strikes, warmth
from gpuherd_agent.acts import Release, Start, Verify
from gpuherd_agent.doors import JoinOrder, Raylet
from gpuherd_agent.drain_terms import grow_terms, terms
from gpuherd_agent.membership import Event
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_agent.station import Facts, Rules, Station, Step

LOOK_JOINING_S: Final = 0.5
LOOK_MEMBER_S: Final = 30.0

_LOSSES: Final = {
    Event.RAYLET_GONE: JoinRefusal.RAYLET_GONE,
    Event.NOT_ALIVE: JoinRefusal.NOT_ALIVE,
}
_KIND_OF_ACTION: Final = {
    Action.CORDON: HoldKind.CORDON,
    Action.DRAIN: HoldKind.DRAIN,
    Action.EVICT: HoldKind.EVICT,
}


def step(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    """Return the next act, with the memory to store before it and the station after it."""
    memory = msgspec.structs.replace(
        memory,
        latched=facts.latched,
        latched_boot_id=facts.boot_id if facts.latched else "",
        boards=facts.boards or memory.boards,
        **_cursor(facts),
    )
    memory, news = _with_health_hold(memory, facts)
    if _is_overtaken(station, memory, facts, rules):
        station = replace(station, under_way=None)
    if station.under_way is not None:
        return Step(station=station, memory=memory, news=news)
    made = _PHASES[station.phase](station, memory, facts, rules)
    return replace(made, news=(*news, *made.news))


def _cursor(facts: Facts) -> dict[str, object]:
    """Return where the kernel log was read to, with the boot that it is of."""
    if facts.kernel_position is None:
        return {}
    return {"kernel_position": facts.kernel_position, "kernel_boot_id": facts.boot_id}


def _with_health_hold(memory: NodeMemory, facts: Facts) -> tuple[NodeMemory, tuple[tuple[str, str], ...]]:
    """Keep one hold of health that is as strong as the verdict; the fleet's observe mode ends it.

    While health is unknown nothing changes: right after a start a held node must not be let go.
    """
    mine = tuple(h for h in memory.holds if h.owner == holds.HEALTH)
    if facts.verdict.severity is Severity.UNKNOWN:
        return memory, ()
    kind = None if memory.fleet_observes else _KIND_OF_ACTION.get(facts.verdict.action)
    if kind is None:
        if not mine:
            return memory, ()
        ended = memory.without_holds(tuple(h.id for h in mine))
        why = "has cleared" if facts.verdict.action < Action.WATCH else "concerns none of the GPUs on offer"
        return ended, (("hold.lifted", f"health: {mine[0].reason} {why}"),)
    if mine and mine[0].kind is kind:
        return memory, ()
    reason = facts.verdict.reason
    hold = Hold(
        id=HoldId(f"health-{facts.fresh_id[-16:]}"),
        owner=holds.HEALTH,
        kind=kind,
        reason=reason,
        since=facts.wall,
    )
    replaced = memory.without_holds(tuple(h.id for h in mine)) if mine else memory
    return replaced.with_holds(hold), (("hold.set", f"health {kind}: {reason}"),)


def _outside(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    if memory.raylet is not None and facts.raylet_alive:
        return _adopt(station, memory, facts, memory.raylet)
    if memory.raylet is not None or memory.drain is not None:
        memory = msgspec.structs.replace(memory, raylet=None, drain=None)
    why_not = _why_not_serving(memory, facts, rules)
    if why_not:
        waiting = replace(station, reason=why_not, wants_drain="", failures=0)
        return _rehearse(waiting, memory, facts, rules)
    if facts.now < station.not_before:
        return Step(station=station, memory=memory)
    moved = moves.move(station, Event.ADMITTED, facts, "checking before the join")
    return moves.act(moved, memory, Verify(head=moves.head(memory, rules, station.head_turn)))


def _rehearse(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    """A node that waits outside finds out now and then what would be in its way."""
    if not warmth.is_time(station, facts):
        return Step(station=station, memory=memory)
    verify = Verify(head=moves.head(memory, rules, station.head_turn), is_rehearsal=True)
    return moves.act(replace(station, rehearsed_at=facts.now), memory, verify)


def _is_overtaken(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> bool:
    """Say whether a rehearsal is under way on a node that is wanted now: nobody waits for its end."""
    act = station.under_way
    is_rehearsal = isinstance(act, Verify) and act.is_rehearsal
    return is_rehearsal and not _why_not_serving(memory, facts, rules)


def _adopt(station: Station, memory: NodeMemory, facts: Facts, raylet: Raylet) -> Step:
    """A raylet of ours runs, from before our own restart: take it over as it is."""
    drain = memory.drain
    if drain is not None and drain.node_id == raylet.node_id and drain.boot_id == facts.boot_id:
        moved = moves.move(
            station, Event.FOUND_DRAINING, facts, f"adopted a draining raylet: {drain.message}"
        )
    else:
        memory = msgspec.structs.replace(memory, drain=None)
        moved = moves.move(station, Event.FOUND, facts, f"adopted the running raylet {raylet.pid}")
    return Step(station=moved, memory=memory, news=(("ray.adopted", moved.reason),))


def _why_not_serving(memory: NodeMemory, facts: Facts, rules: Rules) -> str:
    if memory.holds:
        return f"held by {memory.holds[0].owner}: {memory.holds[0].reason}"
    wanted = moves.wants_to_serve(memory, rules)
    if wanted is None:
        return "no orders yet"
    if not wanted:
        return "standby: the scaler does not want it now"
    if facts.verdict.action >= Action.CORDON and not memory.fleet_observes:
        return f"not fit: {facts.verdict.reason}"
    return ""


def _verifying(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    """Only reached without an act under way when an answer was lost: check again."""
    del facts
    return moves.act(station, memory, Verify(head=moves.head(memory, rules, station.head_turn)))


def start(memory: NodeMemory, facts: Facts, rules: Rules, turn: int = 0) -> Start:
    """Return the act that starts a raylet with the GPUs that are present and meant to serve."""
    chosen = memory.orders.gpus if memory.orders is not None else None
    gpus = facts.healthy if chosen is None else tuple(g for g in facts.healthy if g in chosen)
    order = JoinOrder(
        head=moves.head(memory, rules, turn),
        node=rules.node,
        gpus=gpus,
        node_id=facts.fresh_id,
        labels={
            "gpuherd/pool": moves.pool(memory, rules),
            **({"gpuherd/gpu-model": facts.gpu_model} if facts.gpu_model else {}),
            **({"gpuherd/degraded": "1"} if shrink.is_degraded(gpus, declared=rules.declared) else {}),
        },
    )
    return Start(order=order)


def _joining(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    raylet = memory.raylet
    if raylet is None:
        why_not = _why_not_serving(memory, facts, rules)
        if why_not:
            return Step(station=moves.move(station, Event.START_FAILED, facts, why_not), memory=memory)
        return moves.act(station, memory, start(memory, facts, rules, station.head_turn))
    if not facts.raylet_alive:
        return _lost(station, memory, facts, Event.RAYLET_GONE, "the raylet ended before it was a member")
    if facts.now - station.since > rules.join_timeout_s:
        return _lost(station, memory, facts, Event.NOT_ALIVE, "the head never listed the raylet as alive")
    return moves.look(station, memory, facts, rules, every_s=LOOK_JOINING_S)


def _member(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    if not facts.raylet_alive:
        return _lost(station, memory, facts, Event.RAYLET_GONE, "the raylet ended by itself")
    if station.suspicions >= draining.SUSPICIONS:
        return _lost(station, memory, facts, Event.NOT_ALIVE, "the head does not count the raylet as alive")
    if memory.holds or moves.wants_to_serve(memory, rules) is False:
        wished = terms(memory.holds, any_gpu_usable=bool(facts.healthy))
        if facts.now < station.not_before:
            return Step(station=station, memory=memory)
        return draining.ask_drain(station, memory, facts, rules, wished)
    station = _growing(station, memory, facts, rules)
    if memory.may_hold_slot and facts.now >= station.not_before:
        return moves.act(
            station, memory, Release(head=moves.head(memory, rules), pool=moves.pool(memory, rules))
        )
    if _is_time_to_grow(station, facts):
        wished = grow_terms(waited_long=_waited_to_grow_s(station, facts) >= shrink.GROW_PATIENCE_S)
        return draining.ask_drain(station, memory, facts, rules, wished)
    return moves.look(station, memory, facts, rules, every_s=LOOK_MEMBER_S)


def _growing(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Station:
    """Say with how much the node serves, and since when it could rejoin with more."""
    raylet = memory.raylet
    if raylet is None or not shrink.may_grow(raylet, start(memory, facts, rules).order.gpus):
        since = None
    else:
        since = facts.now if station.growable_since is None else station.growable_since
    few = raylet is not None and shrink.is_degraded(raylet.offered, declared=rules.declared)
    reason = f"serving with {len(raylet.offered)} of {rules.declared} GPUs" if raylet and few else "serving"
    return replace(station, wants_drain="", reason=reason, growable_since=since)


def _waited_to_grow_s(station: Station, facts: Facts) -> float:
    return 0.0 if station.growable_since is None else facts.now - station.growable_since


def _is_time_to_grow(station: Station, facts: Facts) -> bool:
    return _waited_to_grow_s(station, facts) >= shrink.GROW_AFTER_S and facts.now >= station.not_before


def _leaving(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    del rules
    if memory.raylet is None:
        return Step(station=moves.move(station, Event.STOPPED, facts, station.reason), memory=memory)
    if facts.now < station.not_before:
        return Step(station=station, memory=memory)
    return moves.stop(station, memory)


def _lost(station: Station, memory: NodeMemory, facts: Facts, event: Event, reason: str) -> Step:
    """The raylet went without our doing: a strike, and the third in a row holds the node."""
    counted = strikes.struck(memory.strikes, facts.boot_s)
    hold = strikes.hold(counted, facts.fresh_id, reason, facts.wall)
    memory = msgspec.structs.replace(memory, strikes=() if hold else counted)
    news: tuple[tuple[str, str], ...] = (("ray.lost", reason),)
    if hold is not None:
        memory = memory.with_holds(hold)
        news = (*news, ("hold.set", f"{hold.owner}: {hold.reason}"))
    moved = replace(
        moves.move(station, event, facts, reason), is_lost=True, obstacles=(_LOSSES[event].value,)
    )
    return replace(moves.stop(moved, memory), news=news)


_PHASES: Final = {
    Phase.OUTSIDE: _outside,
    Phase.VERIFYING: _verifying,
    Phase.JOINING: _joining,
    Phase.MEMBER: _member,
    Phase.DRAINING: draining.draining,
    Phase.LEAVING: _leaving,
}
