"""Which desired and mode documents the node obeys, and what it then remembers. Pure.

Obeying means: store first, act later. A refused document changes nothing.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from gpuherd import holds
from gpuherd.errors import WireInvalid
from gpuherd.fence import Mark, Ruling, judge
from gpuherd.wire.codec import decode, digest
from gpuherd.wire.documents import Desired, Mode, RefusedDesired, Roster
from gpuherd_agent.doors import Identity
from gpuherd_agent.memory import NodeMemory, Orders

ROSTER_MAX_BYTES: Final = 1_048_576
"""10,000 names of 63 letters are 660 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """The new memory, and why the document was refused (None = it was obeyed, or is the same one)."""

    memory: NodeMemory
    refused: RefusedDesired | None = None


def receive_desired(memory: NodeMemory, payload: bytes, identity: Identity) -> Obeyed:
    """Return what becomes of the memory when this desired document arrives."""
    try:
        document = decode(payload, Desired)
    except WireInvalid as error:
        return Obeyed(memory=memory, refused=RefusedDesired(why=error.reason))
    if (document.cluster, document.node) != (identity.cluster, identity.node):
        return Obeyed(memory=memory, refused=_refusal("wrong_node", document))
    mark = Mark(term=document.term, generation=document.generation, digest=digest(payload))
    ruling = judge(memory.orders.mark if memory.orders else None, mark)
    if ruling is Ruling.SAME:
        return Obeyed(memory=memory)
    if ruling is not Ruling.ACCEPT:
        return Obeyed(memory=memory, refused=_refusal(ruling.value, document))
    return Obeyed(memory=_accepted(memory, document, payload, mark))


def _refusal(why: str, document: Desired) -> RefusedDesired:
    return RefusedDesired(why=why, term=document.term, generation=document.generation)


def _accepted(memory: NodeMemory, document: Desired, payload: bytes, mark: Mark) -> NodeMemory:
    """Merge: holds are added by id and ended by id; what the document does not name stands."""
    of_health = {h.id for h in memory.holds if h.owner == holds.HEALTH}
    ended = tuple(i for i in document.lifted if i not in of_health)
    offered = tuple(h for h in document.holds if h.owner != holds.HEALTH)
    orders = Orders(
        payload=payload,
        mark=mark,
        serve=document.serve,
        head=document.head,
        pool=document.pool,
        pool_size=document.pool_size,
        gpus=document.gpus,
    )
    merged = memory.without_holds(ended).with_holds(*offered)
    return msgspec.structs.replace(merged, orders=orders)


def receive_mode(memory: NodeMemory, payload: bytes, identity: Identity) -> NodeMemory:
    """Return the memory under a fleet mode document; an older term or garbage changes nothing."""
    try:
        document = decode(payload, Mode, max_bytes=4_096)
    except WireInvalid:
        return memory
    if document.cluster != identity.cluster or document.term < memory.mode_term:
        return memory
    if document.mode not in ("enforce", "observe"):
        return memory
    return msgspec.structs.replace(memory, fleet_observes=document.mode == "observe", mode_term=document.term)


def receive_roster(memory: NodeMemory, payload: bytes, identity: Identity) -> NodeMemory:
    """Return the memory under a roster; an older one, an empty one or garbage changes nothing."""
    try:
        document = decode(payload, Roster, max_bytes=ROSTER_MAX_BYTES)
    except WireInvalid:
        return memory
    mark = (document.term, document.version)
    if document.cluster != identity.cluster or mark <= memory.roster_mark or not document.names:
        return memory
    return msgspec.structs.replace(memory, roster=document.names, racks=document.racks, roster_mark=mark)
