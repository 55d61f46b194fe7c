"""How a drain goes on and ends: asked for, armed, disarmed, asked again, over its time. Pure."""

from dataclasses import replace
from typing import Final

import msgspec

from gpuherd import slots
from gpuherd.holds import OnDeadline
from gpuherd.names import RayNodeId
from gpuherd.phases import Phase
from gpuherd.ray import RayStatus
from gpuherd_agent import moves
from gpuherd_agent.acts import Drain
from gpuherd_agent.doors import DrainOrder
from gpuherd_agent.drain_terms import Terms, terms
from gpuherd_agent.membership import Event
from gpuherd_agent.memory import DrainRecord, NodeMemory
from gpuherd_agent.station import Facts, Rules, Station, Step

LOOK_DRAINING_S: Final = 5.0
REASK_DRAIN_S: Final = 15.0
SUSPICIONS: Final = 2
"""Looks in a row in which the head does not list us as alive, until we believe it."""


def draining(station: Station, memory: NodeMemory, facts: Facts, rules: Rules) -> Step:
    """Return the next step of a node whose raylet was asked to drain."""
    drain = memory.drain
    if not facts.raylet_alive or memory.raylet is None:
        return moves.stop(
            moves.move(station, Event.RAYLET_GONE, facts, "drained: the raylet is empty and gone"), memory
        )
    if drain is None:
        return Step(
            station=moves.move(station, Event.DRAIN_REFUSED, facts, "no drain on record"), memory=memory
        )
    if station.suspicions >= SUSPICIONS:
        return moves.stop(
            moves.move(station, Event.NOT_ALIVE, facts, "the head counts the drained raylet as gone"), memory
        )
    if drain.ended_by:
        return _ended(station, memory, facts, rules, drain)
    if _is_unfounded(drain, memory, rules):
        return _rearm(station, memory, facts, rules, drain)
    wished = terms(memory.holds, any_gpu_usable=bool(facts.healthy))
    if memory.holds and wished.rank > drain.rank and facts.now >= station.not_before:
        return ask_drain(station, memory, facts, rules, wished)
    if drain.deadline_boot_s is not None and facts.boot_s >= drain.deadline_boot_s:
        return _time_over(station, memory, facts, rules, drain)
    if _ray_forgot(station, facts, drain) and (memory.holds or moves.wants_to_serve(memory, rules) is False):
        return ask_drain(station, memory, facts, rules, wished)
    return moves.look(station, memory, facts, rules, every_s=LOOK_DRAINING_S)


def end_now(memory: NodeMemory, by: str) -> NodeMemory:
    """Return the memory in which ``by`` wants what still runs on the draining node ended."""
    if memory.drain is None:
        return memory
    return msgspec.structs.replace(memory, drain=msgspec.structs.replace(memory.drain, ended_by=by))


def refuse_end(phase: Phase, memory: NodeMemory, rules: Rules, raylet: str) -> str:
    """Return why nothing is to be ended, or an empty string; ``raylet`` = the node id meant, "" = any."""
    if phase is not Phase.DRAINING or memory.raylet is None or memory.drain is None:
        return f"the node does not drain, it is {phase.value}: there is nothing to end"
    if raylet not in ("", memory.raylet.node_id):
        return f"raylet {raylet[:12]} is gone, the node drains as {memory.raylet.node_id[:12]}: ask again"
    if memory.holds:
        strongest = memory.holds[0]
        return f"held by {strongest.owner}: {strongest.reason}; the node would stay outside"
    if not moves.wants_to_serve(memory, rules):
        return "the autoscaler does not want the node, so it would not rejoin; `agentctl join` asks for it"
    return ""


def _ended(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, drain: DrainRecord) -> Step:
    """A person wants what is left ended; when a hold came first the word is forgotten."""
    if refuse_end(station.phase, memory, rules, ""):
        kept = msgspec.structs.replace(memory, drain=msgspec.structs.replace(drain, ended_by=""))
        return Step(station=station, memory=kept)
    reason = f"what was left is ended by {drain.ended_by}, to rejoin at once"
    return moves.stop(moves.move(station, Event.TIME_OVER, facts, reason), memory)


def _is_unfounded(drain: DrainRecord, memory: NodeMemory, rules: Rules) -> bool:
    """Say whether the hold behind the deadline was lifted."""
    if drain.deadline_boot_s is None:
        return False
    if drain.hold is None:
        return not memory.holds and bool(moves.wants_to_serve(memory, rules))
    return drain.hold not in {hold.id for hold in memory.holds}


def _rearm(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, drain: DrainRecord) -> Step:
    """The deadline goes with its hold; what else stands counts from now on. Ray has no un-drain."""
    wished = terms(memory.holds, any_gpu_usable=bool(facts.healthy))
    deadline_s = wished.deadline_s if memory.holds else None
    armed = msgspec.structs.replace(
        drain,
        deadline_boot_s=None if deadline_s is None else facts.boot_s + deadline_s,
        on_deadline=wished.on_deadline,
        hold=wished.hold if memory.holds else None,
        rank=wished.rank if memory.holds else 0,
        message=wished.message if memory.holds else drain.message,
    )
    reason = _rearmed(memory, rules, deadline_s)
    order = DrainOrder(
        head=(memory.raylet.head if memory.raylet else "") or moves.head(memory, rules),
        node_id=RayNodeId(drain.node_id),
        reason=drain.reason,
        message=armed.message if memory.holds else reason,
        deadline_s=deadline_s,
    )
    asked = moves.act(
        replace(station, reason=reason, overdue=False),
        msgspec.structs.replace(memory, drain=armed),
        Drain(order=order),
    )
    return replace(asked, news=(("drain.disarmed", f"after {facts.boot_s - drain.asked_boot_s:.0f} s"),))


def _rearmed(memory: NodeMemory, rules: Rules, deadline_s: float | None) -> str:
    if memory.holds:
        time = "no deadline" if deadline_s is None else f"{deadline_s:.0f} s from now"
        return f"still to be drained, {time}: {memory.holds[0].reason}"
    goes_on = "it rejoins" if moves.wants_to_serve(memory, rules) else "it stays outside"
    return f"no longer to be drained: no deadline; {goes_on} when its work has ended"


def _time_over(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, drain: DrainRecord) -> Step:
    if drain.on_deadline is OnDeadline.STOP:
        return moves.stop(
            moves.move(station, Event.TIME_OVER, facts, f"deadline passed, stopped: {drain.message}"), memory
        )
    if station.overdue:
        return moves.look(station, memory, facts, rules, every_s=LOOK_DRAINING_S)
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


def ask_drain(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, wished: Terms) -> Step:
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
        hold=wished.hold,
    )
    order = DrainOrder(
        head=raylet.head or moves.head(memory, rules),
        node_id=raylet.node_id,
        reason=wished.reason,
        message=wished.message,
        deadline_s=wished.deadline_s,
        pool=moves.pool(memory, rules) if wished.needs_slot else None,
        budget=slots.budget(memory.orders.pool_size if memory.orders else None),
    )
    changed = msgspec.structs.replace(
        memory, drain=record, may_hold_slot=memory.may_hold_slot or wished.needs_slot
    )
    return moves.act(station, changed, Drain(order=order))
