"""Drain slots: at most B nodes of a pool are out by our own acts, however they raced.

A slot is held by the newest of its create-once keys ``…/drain/<pool>/<k>/<n>`` in the GCS key-value
store unless that key is marked released. This module only chooses; the store's atomic create decides.
"""

from collections.abc import Mapping
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


def choose(keys: Mapping[Slot, str], node: NodeName, size: int) -> Held | Free | Full:
    """Return the slot that ``node`` holds, else one to try, else who holds them all.

    ``keys`` maps every slot key of the pool to its value: a node's name, or RELEASED. Slots at or
    above ``size`` count as used while they are held, so a pool that shrank does not gain slots.
    """
    newest: dict[int, int] = {}
    for slot in keys:
        newest[slot.k] = max(slot.n, newest.get(slot.k, 0))
    holders = {
        k: NodeName(keys[Slot(k=k, n=n)]) for k, n in newest.items() if keys[Slot(k=k, n=n)] != RELEASED
    }
    for k, holder in sorted(holders.items()):
        if holder == node:
            return Held(slot=Slot(k=k, n=newest[k]))
    beyond = sum(1 for k in holders if k >= size)
    for k in range(size - beyond):
        if k not in holders:
            return Free(slot=Slot(k=k, n=newest.get(k, 0) + 1))
    return Full(holders=tuple(holders[k] for k in sorted(holders)))
