"""What triggers beside Ray's own queue ask of each pool, and what their silence means. Pure.

A trigger asks for a number of nodes; of several for one pool the greatest counts. What a trigger does not
tell may hold a pool or raise it, and never lowers it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gpuherd.names import PoolName
from gpuherd_autoscaler.snapshot import Sourced


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a decision knows of one trigger beside its reading."""

    name: str
    pool: PoolName
    on_missing: Literal["hold", "fallback"] = "hold"
    fallback_nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What triggers make of one pool: serve ``nodes`` at least, for ``why``.

    ``blind`` says why nothing of the pool may be released now; empty = no trigger forbids it.
    """

    nodes: int = 0
    why: str = ""
    blind: str = ""


NOTHING = Ask()


def ask_of(terms: Iterable[Terms], readings: Mapping[str, Sourced[int]]) -> dict[PoolName, Ask]:
    """Return what is asked of each pool that any trigger speaks for."""
    asks: dict[PoolName, Ask] = {}
    for trigger in sorted(terms, key=lambda t: t.name):
        asks[trigger.pool] = _with(asks.get(trigger.pool, NOTHING), _one(trigger, readings.get(trigger.name)))
    return asks


def _one(trigger: Terms, reading: Sourced[int] | None) -> Ask:
    if reading is None:
        reading = Sourced(error="was not read yet")
    if reading.fresh is not None:
        return Ask(nodes=reading.fresh, why=f"trigger {trigger.name} asks for {reading.fresh}")
    silence = (
        f"trigger {trigger.name} tells nothing of the present ({reading.error or reading.freshness.value})"
    )
    if trigger.on_missing == "fallback":
        nodes = max(reading.value or 0, trigger.fallback_nodes)
        return Ask(nodes=nodes, why=f"{silence}: {nodes} are kept")
    if reading.value is None:
        return Ask(blind=silence)
    return Ask(nodes=reading.value, why=f"{silence}: the {reading.value} of its last word are kept")


def _with(one: Ask, other: Ask) -> Ask:
    most = other if other.nodes > one.nodes else one
    return Ask(nodes=most.nodes, why=most.why, blind=one.blind or other.blind)
