"""Drain slots: never more nodes out than the budget, however claims and crashes interleave."""

import asyncio
from collections.abc import Awaitable

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuherd import slot_claims, slots
from gpuherd.names import ClusterName, NodeName, PoolName
from gpuherd.slot_claims import SlotOrder, Won

CLUSTER, POOL = ClusterName("c"), PoolName("p")


class SteppedStore:
    """A store whose calls each end one turn of the loop, so that claims interleave at every call."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return tuple(key for key in self.values if key.startswith(prefix))

    async def kv_get(self, key: str) -> bytes | None:
        await asyncio.sleep(0)
        return self.values.get(key)

    async def kv_create(self, key: str, value: bytes) -> bool:
        await asyncio.sleep(0)
        if key in self.values:
            return False
        self.values[key] = value
        return True

    async def kv_put(self, key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        self.values[key] = value


def claim(store: SteppedStore, node: str, budget: int) -> Awaitable[Won | slots.Held | slots.Full]:
    order = SlotOrder(cluster=CLUSTER, pool=POOL, node=NodeName(node), budget=budget)
    return slot_claims.claim(store, order)


def holders(store: SteppedStore) -> set[str]:
    keys = {slots.parse_key(k): v.decode() for k, v in store.values.items()}
    known = {slot: value for slot, value in keys.items() if slot is not None}
    return set(slots.held(known).values())


Move = tuple[str, int, int]
moves = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["claim", "claim", "release"]), st.integers(0, 7), st.integers(1, 3)),
        max_size=8,
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(rounds=moves)
def test_never_more_nodes_hold_a_slot_than_the_largest_budget_in_use(rounds: list[list[Move]]) -> None:
    async def play() -> None:
        store = SteppedStore()
        largest = 0
        for together in rounds:
            largest = max([largest, *(budget for what, _, budget in together if what == "claim")])
            await asyncio.gather(
                *(
                    claim(store, f"n{node}", budget)
                    if what == "claim"
                    else slot_claims.release(store, CLUSTER, POOL, NodeName(f"n{node}"))
                    for what, node, budget in together
                )
            )
            assert len(holders(store)) <= largest

    asyncio.run(play())


@settings(max_examples=100, deadline=None)
@given(count=st.integers(1, 12), budget=st.integers(1, 4))
def test_of_many_that_claim_at_once_exactly_the_budget_wins(count: int, budget: int) -> None:
    async def play() -> None:
        store = SteppedStore()
        answers = await asyncio.gather(*(claim(store, f"n{i}", budget) for i in range(count)))
        won = [a for a in answers if isinstance(a, Won)]
        assert len(won) == min(count, budget) == len(holders(store))

    asyncio.run(play())


def test_a_pool_that_shrank_gains_no_slot() -> None:
    async def play() -> None:
        store = SteppedStore()
        for i in range(3):
            assert isinstance(await claim(store, f"n{i}", 3), Won)
        for i in range(2):
            await slot_claims.release(store, CLUSTER, POOL, NodeName(f"n{i}"))
        full = await claim(store, "late", 1)
        assert isinstance(full, slots.Full)
        assert full.holders == ("n2",)

    asyncio.run(play())


def test_after_a_crash_the_node_finds_its_slot_again() -> None:
    async def play() -> None:
        store = SteppedStore()
        won = await claim(store, "n0", 1)
        again = await claim(store, "n0", 1)
        assert isinstance(won, Won)
        assert isinstance(again, slots.Held)
        assert again.slot == won.slot

    asyncio.run(play())
