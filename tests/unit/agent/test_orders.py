"""Desired and mode documents: what the node obeys, and what it remembers of them."""

import json

import msgspec
import pytest
from tests.kit.node import CLUSTER, IDENTITY, desired, hold, mark_of, ordered

from gpuherd.holds import HoldKind
from gpuherd.names import NodeName
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Mode
from gpuherd_agent.memory import LIFTED_KEPT, NodeMemory
from gpuherd_agent.orders import receive_desired, receive_mode


def refusal(memory: NodeMemory, payload: bytes) -> str:
    obeyed = receive_desired(memory, payload, IDENTITY)
    assert obeyed.memory == memory
    assert obeyed.refused is not None
    return obeyed.refused.why


def test_direct_hold_survives_empty_desired() -> None:
    memory = ordered(NodeMemory(), desired(1)).with_holds(hold("direct-1"))
    later = ordered(memory, desired(2))
    assert [h.id for h in later.holds] == ["direct-1"]


def test_undrain_of_old_hold_keeps_new_one() -> None:
    memory = ordered(NodeMemory(), desired(1, hold("h1")))
    memory = ordered(memory, desired(2, hold("h2"), lifted=("h1",)))
    assert [h.id for h in memory.holds] == ["h2"]


def test_a_hold_that_a_later_document_does_not_name_stands() -> None:
    memory = ordered(NodeMemory(), desired(1, hold("h1")))
    assert [h.id for h in ordered(memory, desired(2)).holds] == ["h1"]


def test_a_lifted_hold_does_not_come_back_with_a_late_document() -> None:
    memory = ordered(NodeMemory(), desired(1, hold("h1")))
    memory = ordered(memory, desired(2, lifted=("h1",)))
    assert ordered(memory, desired(3, hold("h1"))).holds == ()


def test_no_document_lifts_a_hold_of_health() -> None:
    memory = NodeMemory().with_holds(hold("health-1", HoldKind.EVICT, "health"))
    assert [h.id for h in ordered(memory, desired(1, lifted=("health-1",))).holds] == ["health-1"]


def test_no_document_sets_a_hold_in_the_name_of_health() -> None:
    assert ordered(NodeMemory(), desired(1, hold("x", owner="health"))).holds == ()


def test_the_memory_of_lifted_ids_is_bounded() -> None:
    memory = NodeMemory()
    for generation in range(1, 8):
        ids = tuple(f"h{generation}-{i}" for i in range(256))
        memory = ordered(memory, desired(generation, lifted=ids))
    assert len(memory.lifted) == LIFTED_KEPT


def test_term_bomb_refused() -> None:
    memory = ordered(NodeMemory(), desired(1, term=5))
    assert refusal(memory, desired(1, term=5_000)) == "term_bomb"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        pytest.param(desired(4), "older", id="older generation"),
        pytest.param(desired(5, serve=False), "two_writers", id="same place, other bytes"),
        pytest.param(desired(6, node=NodeName("gpu-2")), "wrong_node", id="for another node"),
        pytest.param(b"\x00garbage", "syntax", id="garbage"),
        pytest.param(b" " * 70_000, "oversize", id="oversize"),
        pytest.param(json.dumps({"v": 9}).encode(), "version", id="another protocol"),
    ],
)
def test_a_refused_document_changes_nothing(payload: bytes, why: str) -> None:
    assert refusal(ordered(NodeMemory(), desired(5)), payload) == why


def test_the_same_document_again_is_neither_news_nor_refused() -> None:
    memory = ordered(NodeMemory(), desired(5))
    obeyed = receive_desired(memory, desired(5), IDENTITY)
    assert (obeyed.memory, obeyed.refused) == (memory, None)


def test_the_document_itself_is_kept() -> None:
    memory = ordered(NodeMemory(), desired(5))
    assert memory.orders is not None
    assert memory.orders.payload == desired(5)
    stored = mark_of(memory.orders)
    assert stored is not None
    assert (stored.term, stored.generation) == (1, 5)


@pytest.mark.parametrize(
    ("term", "mode", "observes"),
    [
        pytest.param(3, "observe", True, id="observe"),
        pytest.param(3, "panic", False, id="unknown word"),
        pytest.param(1, "observe", False, id="older term"),
    ],
)
def test_the_fleets_mode(term: int, mode: str, observes: bool) -> None:
    memory = msgspec.structs.replace(NodeMemory(), mode_term=2)
    payload = encode(Mode(cluster=CLUSTER, term=term, mode=mode))
    assert receive_mode(memory, payload, IDENTITY).fleet_observes is observes
