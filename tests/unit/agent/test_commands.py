"""Commands: answered once, never from a retained message, never late."""

import pytest
from tests.kit.node import CLUSTER, IDENTITY, NODE

from gpuherd.names import OperationId
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Command
from gpuherd_agent.commands import KEPT, receive
from gpuherd_agent.memory import NodeMemory


def command(name: str = "c1", *, epoch: int = IDENTITY.epoch, verb: str = "verify") -> bytes:
    return encode(
        Command(
            cluster=CLUSTER,
            node=NODE,
            id=OperationId(name),
            verb=verb,
            epoch=epoch,
            issued_at=100.0,
            expires_s=60.0,
        )
    )


def outcome(memory: NodeMemory, payload: bytes, *, wall: float = 110.0) -> str:
    ack = receive(memory, payload, IDENTITY, retained=False, wall=wall).ack
    assert ack is not None
    return ack.outcome


def test_an_unknown_verb_is_refused_and_remembered() -> None:
    got = receive(NodeMemory(), command(), IDENTITY, retained=False, wall=110.0)
    assert got.ack is not None
    assert got.ack.outcome == "refused"
    assert outcome(got.memory, command()) == "duplicate"


def test_a_late_command_is_expired() -> None:
    assert outcome(NodeMemory(), command(), wall=300.0) == "expired"


def test_a_command_for_an_earlier_run_is_refused() -> None:
    assert outcome(NodeMemory(), command(epoch=3)) == "refused"


@pytest.mark.parametrize(
    ("payload", "retained", "why"),
    [
        pytest.param(command(), True, "retained_command", id="retained"),
        pytest.param(b"{", False, "syntax", id="garbage"),
        pytest.param(b" " * 20_000, False, "oversize", id="oversize"),
    ],
)
def test_what_must_not_be_obeyed_is_counted_and_not_answered(
    payload: bytes, retained: bool, why: str
) -> None:
    got = receive(NodeMemory(), payload, IDENTITY, retained=retained, wall=110.0)
    assert (got.ack, got.dropped, got.memory) == (None, why, NodeMemory())


def test_the_ledger_of_ids_is_bounded() -> None:
    memory = NodeMemory()
    for i in range(KEPT + 10):
        memory = receive(memory, command(f"c{i}"), IDENTITY, retained=False, wall=110.0).memory
    assert len(memory.executed) == KEPT
