"""Claiming and freeing drain slots in a key-value store whose create is atomic.

Knows no client: the GCS is one such store, a dict in a simulation another.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from gpuherd import slots
from gpuherd.names import ClusterName, NodeName, PoolName

ATTEMPTS: Final = 32
"""Each lost race means that another node won a slot, so this is only reached with larger budgets."""


class KeyStore(Protocol):
    """A key-value store; each call raises HeadUnreachable when it gets no answer."""

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        """Return all keys that start so."""
        ...

    async def kv_get(self, key: str) -> bytes | None:
        """Return a value, None when the key does not exist."""
        ...

    async def kv_create(self, key: str, value: bytes) -> bool:
        """Create a key; False when it exists already. Of many creators one wins."""
        ...

    async def kv_put(self, key: str, value: bytes) -> None:
        """Set a key, new or not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOrder:
    """Who wants a slot, of which pool, when ``budget`` nodes of it may be out."""

    cluster: ClusterName
    pool: PoolName
    node: NodeName
    budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Won:
    """The slot is ours since just now."""

    slot: slots.Slot


async def claim(store: KeyStore, order: SlotOrder) -> Won | slots.Held | slots.Full:
    """Win a slot unless the node holds one; Full names who holds them all.

    Full without holders: others were quicker ``ATTEMPTS`` times over. After HeadUnreachable the slot may be
    ours or not; the next claim finds out.
    """
    for _ in range(ATTEMPTS):
        chosen = slots.choose(await read(store, order.cluster, order.pool), order.node, order.budget)
        if not isinstance(chosen, slots.Free):
            return chosen
        key = slots.key(order.cluster, order.pool, chosen.slot)
        if await store.kv_create(key, order.node.encode()):
            return Won(slot=chosen.slot)
    return slots.Full(holders=())


async def release(store: KeyStore, cluster: ClusterName, pool: PoolName, node: NodeName) -> int:
    """Free every slot that the node holds and return how many; again is harmless."""
    mine = [slot for slot, holder in slots.held(await read(store, cluster, pool)).items() if holder == node]
    for slot in mine:
        await store.kv_put(slots.key(cluster, pool, slot), slots.RELEASED.encode())
    return len(mine)


async def read(store: KeyStore, cluster: ClusterName, pool: PoolName) -> dict[slots.Slot, str]:
    """Return the newest use of every slot of the pool with its value.

    Not atomic, and need not be: a key that appeared meanwhile makes the create fail, and one that was freed
    meanwhile only looks held. A key deleted meanwhile counts as freed.
    """
    named = (slots.parse_key(key) for key in await store.kv_keys(slots.prefix(cluster, pool)))
    found: dict[slots.Slot, str] = {}
    for slot in slots.newest(slot for slot in named if slot is not None):
        value = await store.kv_get(slots.key(cluster, pool, slot))
        found[slot] = slots.RELEASED if value is None else value.decode(errors="replace")
    return found
