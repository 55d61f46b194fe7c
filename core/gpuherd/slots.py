"""Drain slots: at most B nodes of a pool are out by our own acts, however they raced.

A slot is held by the newest of its create-once keys ``…/drain/<pool>/<k>/<n>`` in the GCS key-value
store unless that key is marked released. This module only chooses; the store's atomic create decides.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpuherd.names import ClusterName, NodeName, PoolName

NAMESPACE: Final = b"gpuherd"
RELEASED: Final = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Slot ``k`` of a pool in its ``n``-th use."""

    k: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The node holds this slot already, from before a crash for example."""

    slot: Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Creating this slot's key wins it; losing that race means: choose again."""

    slot: Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """The budget is used up by these nodes."""

    holders: tuple[NodeName, ...]


def budget(pool_size: int | None) -> int:
    """Return how many nodes of a pool may be out at once: 10 %, and never less than one."""
    return max(1, (pool_size or 0) // 10)


def prefix(cluster: ClusterName, pool: PoolName) -> str:
    """Return the start of every slot key of a pool."""
    return f"gpuherd/{cluster}/drain/{pool}/"


def key(cluster: ClusterName, pool: PoolName, slot: Slot) -> str:
    """Return the create-once key of one use of a slot."""
    return f"{prefix(cluster, pool)}{slot.k}/{slot.n}"


def parse_key(text: str) -> Slot | None:
    """Return the slot that a key names, or None for a key that is none of ours."""
    k, _, n = "/".join(text.rsplit("/", 2)[1:]).partition("/")
    return Slot(k=int(k), n=int(n)) if k.isdecimal() and n.isdecimal() else None


def newest(keys: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the newest use of every slot, by slot: only their values matter to ``choose``."""
    found: dict[int, int] = {}
    for slot in keys:
        found[slot.k] = max(slot.n, found.get(slot.k, 0))
    return tuple(Slot(k=k, n=n) for k, n in sorted(found.items()))


def held(keys: Mapping[Slot, str]) -> dict[Slot, NodeName]:
    """Return the slots that are held and by whom, lowest first."""
    return {slot: NodeName(keys[slot]) for slot in newest(keys) if keys[slot] != RELEASED}


def choose(keys: Mapping[Slot, str], node: NodeName, size: int) -> Held | Free | Full:
    """Return the slot that ``node`` holds, else one to try, else who holds them all.

    ``keys`` maps slot keys of the pool to their values: a node's name, or RELEASED; uses older than the
    newest of a slot may be left out. Slots at or above ``size`` count as used while they are held, so a
    pool that shrank does not gain slots.

    Only as many of the lowest free slots are offered as the budget has left: whoever reads the same and
    wins too can then not push the sum above ``size``. Among them the node's name picks, so that many
    nodes falling sick at once do not all fight for the lowest.
    """
    latest = {slot.k: slot.n for slot in newest(keys)}
    holders = held(keys)
    for slot, holder in holders.items():
        if holder == node:
            return Held(slot=slot)
    taken = {slot.k for slot in holders}
    free = [k for k in range(size) if k not in taken][: max(0, size - len(holders))]
    if not free:
        return Full(holders=tuple(holders.values()))
    k = free[zlib.crc32(node.encode()) % len(free)]
    return Free(slot=Slot(k=k, n=latest.get(k, 0) + 1))
