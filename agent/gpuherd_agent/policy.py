"""What a node does next, from its memory, its health and what it sees of Ray. Pure.

Level-triggered: each step looks at what is so and yields at most one act, so a crash at any point is
only a step that has to be made again. ``conclude`` takes in what an act came to.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from gpuherd import holds, slots
from gpuherd.health import Action, Severity
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import HoldId, PoolName, RayNodeId
from gpuherd.phases import Phase
from gpuherd.ray import RayStatus
from gpuherd_agent import membership, shrink, strikes
from gpuherd_agent.acts import Act, Drain, Look, Release, Start, Stop, Verify
from gpuherd_agent.doors import DrainOrder, JoinOrder, Raylet
from gpuherd_agent.drain_terms import Terms, grow_terms, terms
from gpuherd_agent.membership import Event
from gpuherd_agent.memory import DrainRecord, NodeMemory
from gpuherd_agent.refusals import JoinRefusal
from gpuherd_agent.station import Facts, Rules, Station, Step

LOOK_JOINING_S: Final = 0.5
LOOK_DRAINING_S: Final = 5.0
LOOK_MEMBER_S: Final = 30.0
REASK_DRAIN_S: Final = 15.0
SUSPICIONS: Final = 2

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
    if station.under_way is not None:
        return Step(station=station, memory=memory, news=news)
    made = _PHASES[station.phase](station, memory, facts, rules)
    return replace(made, news=(*news, *made.news))


def _cursor(facts: Facts) -> dict[str, object]:
    """Return where the kernel log was read to, with the boot that it is of."""
    if facts.kernel_position is None:
        return {}
    return {"kernel_position": facts.kernel_position, "kernel_boot_id": facts.boot_id}


def wants_to_serve(memory: NodeMemory, rules: Rules) -> bool | None:
    """Return whether the node is wanted; None = no word of it, so stay as you are."""
    if memory.orders is not None:
        return memory.orders.serve
    return {"serve": True, "stay_out": False}.get(rules.without_orders)


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
        return Step(station=replace(station, reason=why_not, wants_drain="", failures=0), memory=memory)
    if facts.now < station.not_before:
        return Step(station=station, memory=memory)
    moved = move(station, Event.ADMITTED, facts, "checking before the join")
    return _act(moved, memory, Verify(head=head(memory, rules, station.head_turn)))


def _adopt(station: Station, memory: NodeMemory, facts: Facts, raylet: Raylet) -> Step:
    """A raylet of ours runs, from before our own restart: take it over as it is."""
    drain = memory.drain
    if drain is not None and drain.node_id == raylet.node_id and drain.boot_id == facts.boot_id:
        moved = move(station, Event.FOUND_DRAINING, facts, f"adopted a draining raylet: {drain.message}")
    else:
        memory = msgspec.structs.replace(memory, drain=None)
        moved = move(station, Event.FOUND, facts, f"adopted the running raylet {raylet.pid}")
    return Step(station=moved, memory=memory, news=(("ray.adopted", moved.reason),))


def _why_not_serving(memory: NodeMemory, facts: Facts, rules: Rules) -> str:
    if memory.holds:
        return f"held by {memory.holds[0].owner}: {memory.holds[0].reason}"
    wanted = wants_to_serve(memory, rules)
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
    return _act(station, memory, Verify(head=head(memory, rules, station.head_turn)))


def start(memory: NodeMemory, facts: Facts, rules: Rules, turn: int = 0) -> Start:
    """Return the act that starts a raylet with the GPUs that are present and meant to serve."""
    chosen = memory.orders.gpus if memory.orders is not None else None
    gpus = facts.healthy if chosen is None else tuple(g for g in facts.healthy if g in chosen)
    order = JoinOrder(
        head=head(memory, rules, turn),
        node=rules.node,
        gpus=gpus,
        node_id=facts.fresh_id,
        labels={
            "gpuherd/pool": _pool(memory, rules),
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
            return Step(station=move(station, Event.START_FAILED, facts, why_not), memory=memory)
        return _act(station, memory, start(memory, facts, rules, station.head_turn))
    if not facts.raylet_alive:
        return _lost(station, memory, facts, Event.RAYLET_GONE, "the raylet ended before it was a member")
    if facts.now - station.since > rules.join_timeout_s:
        return _lost(station, memory, facts, Event.NOT_ALIVE, "the head never listed the raylet as alive")
    return _look(station, memory, facts, rules, every_s=LOOK_JOINING_S)


def _member(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    if not facts.raylet_alive:
        return _lost(station, memory, facts, Event.RAYLET_GONE, "the raylet ended by itself")
    if station.suspicions >= SUSPICIONS:
        return _lost(station, memory, facts, Event.NOT_ALIVE, "the head does not count the raylet as alive")
    if memory.holds or wants_to_serve(memory, rules) is False:
        wished = terms(memory.holds, any_gpu_usable=bool(facts.healthy))
        if facts.now < station.not_before:
            return Step(station=station, memory=memory)
        return _ask_drain(station, memory, facts, rules, wished)
    station = _growing(station, memory, facts, rules)
    if memory.may_hold_slot and facts.now >= station.not_before:
        return _act(station, memory, Release(head=head(memory, rules), pool=_pool(memory, rules)))
    if _is_time_to_grow(station, facts):
        wished = grow_terms(waited_long=_waited_to_grow_s(station, facts) >= shrink.GROW_PATIENCE_S)
        return _ask_drain(station, memory, facts, rules, wished)
    return _look(station, memory, facts, rules, every_s=LOOK_MEMBER_S)


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


def _draining(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    drain = memory.drain
    if not facts.raylet_alive or memory.raylet is None:
        return _stop(move(station, Event.RAYLET_GONE, facts, "drained: the raylet is empty and gone"), memory)
    if drain is None:
        return Step(station=move(station, Event.DRAIN_REFUSED, facts, "no drain on record"), memory=memory)
    if station.suspicions >= SUSPICIONS:
        return _stop(
            move(station, Event.NOT_ALIVE, facts, "the head counts the drained raylet as gone"), memory
        )
    if not memory.holds and wants_to_serve(memory, rules) and drain.deadline_boot_s is not None:
        return _disarm(station, memory, facts, rules, drain)
    wished = terms(memory.holds, any_gpu_usable=bool(facts.healthy))
    if memory.holds and wished.rank > drain.rank and facts.now >= station.not_before:
        return _ask_drain(station, memory, facts, rules, wished)
    if drain.deadline_boot_s is not None and facts.boot_s >= drain.deadline_boot_s:
        return _time_over(station, memory, facts, rules, drain)
    if _ray_forgot(station, facts, drain) and (memory.holds or wants_to_serve(memory, rules) is False):
        return _ask_drain(station, memory, facts, rules, wished)
    return _look(station, memory, facts, rules, every_s=LOOK_DRAINING_S)


def _disarm(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, drain: DrainRecord) -> Step:
    """The last hold was lifted: our deadline goes first. Ray has no un-drain; the node rejoins when empty."""
    disarmed = msgspec.structs.replace(drain, deadline_boot_s=None)
    reason = "no longer to be drained: no deadline; it rejoins when its work has ended"
    act = Drain(
        order=DrainOrder(
            head=(memory.raylet.head if memory.raylet else "") or head(memory, rules),
            node_id=RayNodeId(drain.node_id),
            reason=drain.reason,
            message=reason,
        )
    )
    return Step(
        station=replace(station, reason=reason, under_way=act, overdue=False),
        memory=msgspec.structs.replace(memory, drain=disarmed),
        act=act,
        news=(("drain.disarmed", f"after {facts.boot_s - drain.asked_boot_s:.0f} s"),),
    )


def _time_over(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, drain: DrainRecord) -> Step:
    if drain.on_deadline is OnDeadline.STOP:
        return _stop(
            move(station, Event.TIME_OVER, facts, f"deadline passed, stopped: {drain.message}"), memory
        )
    if station.overdue:
        return _look(station, memory, facts, rules, every_s=LOOK_DRAINING_S)
    reason = f"deadline passed, work still runs, waiting: {drain.message}"
    return Step(
        station=replace(station, overdue=True, reason=reason),
        memory=memory,
        news=(("drain.overdue", reason),),
    )


def _ray_forgot(station: Station, facts: Facts, drain: DrainRecord) -> bool:
    """Say whether Ray lists us as working though a drain should be on: it was lost, or the head restarted."""
    seen = station.sight is not None and station.sight.status in (RayStatus.RUNNING, RayStatus.IDLE)
    fresh = station.looked_at > station.since and facts.now - station.looked_at < LOOK_DRAINING_S
    return seen and fresh and facts.boot_s - drain.asked_boot_s > REASK_DRAIN_S


def _leaving(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    del rules
    if memory.raylet is None:
        return Step(station=move(station, Event.STOPPED, facts, station.reason), memory=memory)
    if facts.now < station.not_before:
        return Step(station=station, memory=memory)
    return _stop(station, memory)


def _ask_drain(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, wished: Terms) -> Step:
    """Record the drain, then ask: after a crash in between it counts as asked."""
    raylet = memory.raylet
    assert raylet is not None  # noqa: S101  only called with a living raylet
    record = DrainRecord(
        node_id=raylet.node_id,
        boot_id=facts.boot_id,
        reason=wished.reason,
        message=wished.message,
        asked_boot_s=facts.boot_s,
        deadline_boot_s=None if wished.deadline_s is None else facts.boot_s + wished.deadline_s,
        on_deadline=wished.on_deadline,
        rank=wished.rank,
    )
    order = DrainOrder(
        head=raylet.head or head(memory, rules),
        node_id=raylet.node_id,
        reason=wished.reason,
        message=wished.message,
        deadline_s=wished.deadline_s,
        pool=_pool(memory, rules) if wished.needs_slot else None,
        budget=slots.budget(memory.orders.pool_size if memory.orders else None),
    )
    changed = msgspec.structs.replace(
        memory, drain=record, may_hold_slot=memory.may_hold_slot or wished.needs_slot
    )
    return _act(station, changed, Drain(order=order))


def _lost(station: Station, memory: NodeMemory, facts: Facts, event: Event, reason: str) -> Step:
    """The raylet went without our doing: a strike, and the third in a row holds the node."""
    counted = strikes.struck(memory.strikes, facts.boot_s)
    hold = strikes.hold(counted, facts.fresh_id, reason, facts.wall)
    memory = msgspec.structs.replace(memory, strikes=() if hold else counted)
    news: tuple[tuple[str, str], ...] = (("ray.lost", reason),)
    if hold is not None:
        memory = memory.with_holds(hold)
        news = (*news, ("hold.set", f"{hold.owner}: {hold.reason}"))
    moved = replace(move(station, event, facts, reason), is_lost=True, obstacles=(_LOSSES[event].value,))
    return replace(_stop(moved, memory), news=news)


def _look(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, *, every_s: float) -> Step:
    raylet = memory.raylet
    if raylet is None or facts.now - station.looked_at < every_s:
        return Step(station=station, memory=memory)
    return _act(station, memory, Look(head=raylet.head or head(memory, rules), node_id=raylet.node_id))


def _stop(station: Station, memory: NodeMemory) -> Step:
    raylet: Raylet | None = memory.raylet
    if raylet is None:
        return Step(station=station, memory=memory)
    return _act(station, memory, Stop(raylet=raylet))


def _act(station: Station, memory: NodeMemory, act: Act) -> Step:
    return Step(station=replace(station, under_way=act), memory=memory, act=act)


def move(station: Station, event: Event, facts: Facts, reason: str) -> Station:
    """Return the station after the event; what was seen of Ray in the old phase is forgotten."""
    phase = membership.after(station.phase, event)
    if phase is station.phase:
        return replace(station, reason=reason)
    return replace(
        station,
        phase=phase,
        since=facts.now,
        reason=reason,
        under_way=None,
        looked_at=float("-inf"),
        sight=None,
        suspicions=0,
        wants_drain="",
        overdue=False,
        growable_since=None,
    )


def head(memory: NodeMemory, rules: Rules, turn: int = 0) -> str:
    """Return the address of the head that the node is to join; ``turn`` counts those that did not answer."""
    given: Sequence[str] = memory.orders.head if memory.orders and memory.orders.head else rules.heads
    return given[turn % len(given)]


def _pool(memory: NodeMemory, rules: Rules) -> PoolName:
    return memory.orders.pool if memory.orders else rules.pool


_PHASES: Final = {
    Phase.OUTSIDE: _outside,
    Phase.VERIFYING: _verifying,
    Phase.JOINING: _joining,
    Phase.MEMBER: _member,
    Phase.DRAINING: _draining,
    Phase.LEAVING: _leaving,
}
