"""Commands to nodes: recorded before they are sent, sent once, ended by the node's own word."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.scaler import CLUSTER, ONE, KeptBus, book, state

from gpuherd.bus import Message
from gpuherd.errors import Conflict, HerdError, NotFound, Refused, Retryable
from gpuherd.names import NodeName, OperationId
from gpuherd.rest import OperationState
from gpuherd.wire import topics
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Ack, Command, Online
from gpuherd_autoscaler.acts import observe
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.commander import Commander, CommandWish
from gpuherd_autoscaler.ledger import Operation

DONE, FAILED, OPEN = OperationState.DONE, OperationState.FAILED, OperationState.OPEN


class Bench:
    """A commander over a real ledger, a bus that keeps what it is told, and one node that was heard."""

    def __init__(self, made: Book) -> None:
        self.book = made
        self.bus = KeptBus()
        self.commander = Commander(made, self.bus)
        made.inventory.receive_state(state(ONE, epoch=7), at=0.0)

    def ask(self, **changed: object) -> Operation:
        given = {
            "node": ONE,
            "verb": "ack",
            "by": "Ann",
            "arguments": {"finding": "gpu_lost"},
            "reason": "swapped",
        }
        return self.commander.command(CommandWish(**{**given, **changed}))  # type: ignore[arg-type]

    def answer(
        self, operation: Operation, outcome: str, reason: str = "", output: str = "", **place: str
    ) -> None:
        ack = Ack(cluster=CLUSTER, node=ONE, id=operation.id, outcome=outcome, reason=reason, output=output)
        leaf = place.get("leaf", f"ack/{operation.id}")
        topic = topics.node(CLUSTER, NodeName(place.get("node", ONE)), leaf)
        self.commander.receive(Message(topic=topic, payload=encode(ack)))

    def now(self, operation: Operation) -> Operation:
        found = self.book.ledger.operation(operation.id)
        assert found is not None
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with book(tmp_path) as made:
        yield Bench(made)


def test_a_command_is_recorded_with_who_and_why_and_sent_to_the_run_that_was_heard(bench: Bench) -> None:
    operation = bench.ask()
    ((topic, payload),) = bench.bus.kept
    sent = decode(payload, Command)
    assert topic == topics.node(CLUSTER, ONE, "command")
    assert (sent.id, sent.epoch, sent.verb, sent.arguments) == (
        operation.id,
        7,
        "ack",
        {"finding": "gpu_lost"},
    )
    assert (sent.by, sent.reason) == ("user:ann", "swapped")
    assert [e.note.reason for e in bench.book.ledger.events(after=0)] == [
        "ack finding=gpu_lost: swapped (by user:ann)"
    ]


def test_the_nodes_answers_are_steps_and_its_last_word_is_the_end(bench: Bench) -> None:
    operation = bench.ask()
    for outcome in ("accepted", "running", "running"):
        bench.answer(operation, outcome)
    assert [s.text for s in bench.now(operation).steps] == ["accepted", "running"]
    bench.answer(operation, "done", "ended gpu_lost", "a path")
    ended = bench.now(operation)
    assert (ended.state, ended.result, ended.output) == (DONE, "ended gpu_lost", "a path")
    bench.answer(operation, "failed", "too late")
    assert bench.now(operation) == ended


@pytest.mark.parametrize("outcome", ["failed", "refused", "expired"])
def test_every_other_end_is_a_failure_with_its_reason(bench: Bench, outcome: str) -> None:
    operation = bench.ask()
    bench.answer(operation, outcome, "no latched finding")
    assert (bench.now(operation).state, bench.now(operation).result) == (
        FAILED,
        f"{outcome}: no latched finding",
    )


def test_a_duplicate_is_no_end(bench: Bench) -> None:
    operation = bench.ask()
    bench.answer(operation, "duplicate")
    assert bench.now(operation).state is OPEN


def test_a_repeated_request_sends_nothing_again(bench: Bench) -> None:
    first = bench.ask(request_key="k")
    assert bench.ask(request_key="k").id == first.id
    assert len(bench.bus.kept) == 1
    with pytest.raises(Conflict, match="belongs to the command of n-1"):
        bench.ask(request_key="k", node=NodeName("n-2"))


def test_an_agent_that_restarts_leaves_its_command_without_an_end_that_anybody_knows(bench: Bench) -> None:
    operation = bench.ask()
    bench.answer(operation, "running")
    bench.book.inventory.receive_state(state(ONE, epoch=8), at=1.0)
    observe(bench.book, {})
    ended = bench.now(operation)
    assert (ended.state, ended.result[:19]) == (FAILED, "the agent restarted")


def test_a_node_that_never_answers_ends_it_by_time(bench: Bench) -> None:
    operation = bench.ask(timeout_s=1e-9)
    observe(bench.book, {})
    ended = bench.now(operation)
    assert (ended.state, ended.result[-23:]) == (OperationState.ABANDONED, "the node did not answer")


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        pytest.param({"node": NodeName("stranger")}, NotFound, "in no pool", id="a stranger"),
        pytest.param({"node": NodeName("n-2")}, Retryable, "never been heard", id="a node never heard of"),
        pytest.param({"verb": ""}, Refused, "no word", id="no verb"),
        pytest.param({"verb": "rm -rf /"}, Refused, "no word", id="a verb that is none"),
        pytest.param({"arguments": {"a": "x" * 1_001}}, Refused, "1000 characters", id="a long argument"),
        pytest.param({"arguments": {str(i): "" for i in range(17)}}, Refused, "at most 16", id="many"),
        pytest.param({"timeout_s": 0.0}, Refused, "timeout_s", id="no time"),
        pytest.param({"timeout_s": float("nan")}, Refused, "timeout_s", id="no number"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_and_sends_nothing(
    bench: Bench, changed: dict[str, object], kind: type[HerdError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        bench.ask(**changed)
    assert (bench.bus.kept, bench.book.ledger.operations()) == ([], ())


def test_an_agent_that_is_offline_and_a_broker_that_is_away_are_told_apart(bench: Bench) -> None:
    bench.bus.is_connected = False
    with pytest.raises(Retryable, match="broker is not connected"):
        bench.ask()
    bench.book.inventory.receive_online(Online(cluster=CLUSTER, node=ONE, epoch=7, conn=1, online=False))
    with pytest.raises(Retryable, match="agent of n-1 is offline"):
        bench.ask()


def test_answers_that_are_garbage_or_anothers_change_nothing_and_are_counted(bench: Bench) -> None:
    operation = bench.ask()
    bench.answer(operation, "done", node="n-2")
    bench.answer(operation, "done", leaf="ack/op-x")
    topic = topics.node(CLUSTER, ONE, f"ack/{operation.id}")
    bench.commander.receive(Message(topic=topic, payload=b"{"))
    other = Ack(cluster=CLUSTER, node=ONE, id=OperationId("op-x"), outcome="done")
    bench.commander.receive(Message(topic=topics.node(CLUSTER, ONE, "ack/op-x"), payload=encode(other)))
    assert bench.now(operation).state is OPEN
    assert bench.commander.dropped == {"wrong_topic": 2, "syntax": 1, "unknown_operation": 1}
