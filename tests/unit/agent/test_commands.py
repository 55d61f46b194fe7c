"""Commands: answered once, never from a retained message, never late."""

import pytest
from tests.kit.node import CLUSTER, IDENTITY, NODE

from gpuherd.names import OperationId
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Command
from gpuherd_agent.commands import ANSWERS_KEPT, KEPT, answer, receive, settled
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
    assert outcome(got.memory, command()) == "refused"


def test_a_known_verb_is_accepted_once_and_a_repeat_without_an_end_is_a_duplicate() -> None:
    got = receive(NodeMemory(), command(), IDENTITY, retained=False, wall=110.0, verbs=("verify",))
    assert got.ack is not None
    assert got.accepted is not None
    assert got.ack.outcome == "accepted"
    again = receive(got.memory, command(), IDENTITY, retained=False, wall=110.0, verbs=("verify",))
    assert again.accepted is None
    assert again.ack is not None
    assert again.ack.outcome == "duplicate"


def test_a_repeat_of_a_command_that_has_ended_gets_its_end_again() -> None:
    got = receive(NodeMemory(), command(), IDENTITY, retained=False, wall=110.0, verbs=("verify",))
    assert got.accepted is not None
    end = answer(got.accepted, "done", "all checks passed", "line\n" * 3_000)
    memory = settled(settled(got.memory, answer(got.accepted, "running")), end)
    assert memory.answers == (end,)
    assert receive(memory, command(), IDENTITY, retained=False, wall=9_999.0).ack == end
    assert len(end.output) == 8_000


def test_only_the_last_ends_are_kept() -> None:
    memory = NodeMemory()
    for i in range(ANSWERS_KEPT + 5):
        got = receive(memory, command(f"c{i}"), IDENTITY, retained=False, wall=110.0)
        memory = got.memory
    assert len(memory.answers) == ANSWERS_KEPT
    assert memory.answers[-1].id == f"c{ANSWERS_KEPT + 4}"


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
