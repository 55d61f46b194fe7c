"""What every phase is made of: moving to another, asking for an act, looking, stopping. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from gpuherd.names import PoolName
from gpuherd_agent import membership
from gpuherd_agent.acts import Act, Look, Stop
from gpuherd_agent.doors import Raylet
from gpuherd_agent.membership import Event
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.station import Facts, Rules, Station, Step


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


def act(station: Station, memory: NodeMemory, wanted: Act) -> Step:
    """Return the step that asks for this act; no other is asked for until it has come to something."""
    return Step(station=replace(station, under_way=wanted), memory=memory, act=wanted)


def stop(station: Station, memory: NodeMemory) -> Step:
    """Return the step that ends what is left of the raylet."""
    raylet: Raylet | None = memory.raylet
    if raylet is None:
        return Step(station=station, memory=memory)
    return act(station, memory, Stop(raylet=raylet))


def look(station: Station, memory: NodeMemory, facts: Facts, rules: Rules, *, every_s: float) -> Step:
    """Return the step that asks the head for our node, if the last answer is older than ``every_s``."""
    raylet = memory.raylet
    if raylet is None or facts.now - station.looked_at < every_s:
        return Step(station=station, memory=memory)
    return act(station, memory, Look(head=raylet.head or head(memory, rules), node_id=raylet.node_id))


def head(memory: NodeMemory, rules: Rules, turn: int = 0) -> str:
    """Return the address of the head that the node is to join; ``turn`` counts those that did not answer."""
    given: Sequence[str] = memory.orders.head if memory.orders and memory.orders.head else rules.heads
    return given[turn % len(given)]


def wants_to_serve(memory: NodeMemory, rules: Rules) -> bool | None:
    """Return whether the node is wanted; None = no word of it, so stay as you are."""
    if memory.orders is not None:
        return memory.orders.serve
    return {"serve": True, "stay_out": False}.get(rules.without_orders)


def pool(memory: NodeMemory, rules: Rules) -> PoolName:
    """Return the node's pool as ordered, else as set on the host."""
    return memory.orders.pool if memory.orders else rules.pool
