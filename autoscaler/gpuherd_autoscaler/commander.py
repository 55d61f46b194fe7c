"""Commands of people to nodes: recorded, published once, and followed by the node's own answers.

A command happens at most once: it is published when it has been recorded and never again. Its operation
ends by the node's last word, by the end of the agent's run that it was meant for, or by time.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from gpuherd import holds
from gpuherd.bus import Bus, Message
from gpuherd.errors import Conflict, Refused, Retryable, WireInvalid
from gpuherd.names import NodeName
from gpuherd.shell import logs
from gpuherd.wire import topics
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Ack, Command, State
from gpuherd_autoscaler import operations
from gpuherd_autoscaler.book import Book, ending
from gpuherd_autoscaler.ledger import Change, LedgerFailed, Note, Operation, OperationKind

EXPIRES_S: Final = 60.0
TIMEOUT_MAX_S: Final = 86_400.0
_ACK_MAX_BYTES: Final = 65_536
_ARGUMENTS_MAX: Final = 16
_ARGUMENT_MAX: Final = 1_000

log = logs.get("gpuherd.autoscaler")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWish:
    """What a person wants a node to do once. ``timeout_s`` None = the usual time."""

    node: NodeName
    verb: str
    by: str
    arguments: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    timeout_s: float | None = None
    request_key: str = ""


class Commander:
    """Give it book and bus, let it ``listen``, then hand it wishes."""

    def __init__(self, book: Book, bus: Bus) -> None:
        self.dropped: Counter[str] = Counter()
        """Answers that were not used, by reason."""
        self._book = book
        self._bus = bus

    def listen(self) -> None:
        """Hear every node's answers."""
        self._bus.subscribe(topics.every_node(self._book.herd.cluster, "ack/+"), self.receive)

    def command(self, wish: CommandWish) -> Operation:
        """Return the operation of a command that is on its way; a repeated request finds the first one.

        Raises NotFound, Refused (LedgerFailed and Conflict among them) and Retryable; nothing was sent then.
        """
        book = self._book
        book.herd.frame(wish.node, book.ledger.term)
        repeated = book.ledger.requested(wish.request_key) if wish.request_key else None
        if repeated is not None:
            if (repeated.kind, repeated.node) != (OperationKind.COMMAND, wish.node):
                raise Conflict(
                    f"the key {wish.request_key[:80]!r} belongs to the {repeated.kind} of {repeated.node}"
                )
            return repeated
        _require_bounds(wish)
        state = self._require_agent(wish.node)
        operation = self._operation(wish, state)
        document = Command(
            cluster=book.herd.cluster,
            node=wish.node,
            id=operation.id,
            verb=wish.verb,
            arguments=wish.arguments,
            by=operation.by,
            reason=wish.reason[:_ARGUMENT_MAX],
            epoch=state.epoch,
            issued_at=operation.created_at,
            expires_s=EXPIRES_S,
        )
        note = Note(
            at=operation.created_at,
            kind="command.asked",
            reason=f"{operation.reason} (by {operation.by})",
            node=wish.node,
            operation=operation.id,
        )
        book.commit(Change(operations=(operation,), notes=(note,)))
        self._bus.tell(topics.node(book.herd.cluster, wish.node, "command"), encode(document))
        return operation

    def receive(self, message: Message) -> None:
        """Take one answer; whatever it holds, nothing is raised."""
        place = topics.parse(message.topic, self._book.herd.cluster)
        if place is None or not message.payload:
            return
        node, leaf = place
        try:
            ack = decode(message.payload, Ack, max_bytes=_ACK_MAX_BYTES)
        except WireInvalid as error:
            self.dropped[error.reason] += 1
            return
        if (ack.cluster, ack.node, f"ack/{ack.id}") != (self._book.herd.cluster, node, leaf):
            self.dropped["wrong_topic"] += 1
            return
        try:
            self._take(ack)
        except LedgerFailed as error:
            self.dropped["ledger_failed"] += 1
            log.warning("ack.lost", node=node, operation=ack.id, outcome=ack.outcome, error=str(error))

    def _take(self, ack: Ack) -> None:
        operation = self._book.ledger.operation(ack.id)
        if operation is None or operation.kind is not OperationKind.COMMAND or operation.node != ack.node:
            self.dropped["unknown_operation"] += 1
            return
        moved = operations.answered(operation, ack, wall=self._book.clock.wall())
        if moved is operation:
            return
        notes = () if moved.is_open else (ending(moved),)
        self._book.commit(Change(operations=(moved,), notes=notes))

    def _require_agent(self, node: NodeName) -> State:
        state, online = self._book.state(node), self._book.inventory.online(node)
        if state is None:
            raise Retryable(f"the agent of {node} has never been heard; start it, then ask again")
        if online is not None and online.epoch >= state.epoch and not online.online:
            raise Retryable(f"the agent of {node} is offline; nothing would carry this out: start it first")
        if not self._bus.is_connected:
            raise Retryable(
                "the broker is not connected, so no command reaches a node; mend it, then ask again"
            )
        return state

    def _operation(self, wish: CommandWish, state: State) -> Operation:
        words = " ".join([wish.verb, *(f"{k}={v}" for k, v in sorted(wish.arguments.items()) if v)])
        timeout_s = operations.TIMEOUT_S[OperationKind.COMMAND] if wish.timeout_s is None else wish.timeout_s
        return Operation(
            id=self._book.new_id(),
            kind=OperationKind.COMMAND,
            node=wish.node,
            by=holds.user(wish.by),
            reason=f"{words}: {wish.reason}"[:1_000] if wish.reason else words[:1_000],
            created_at=self._book.clock.wall(),
            term=self._book.ledger.term,
            generation=0,
            target=operations.target(state),
            timeout_s=timeout_s,
            request_key=wish.request_key,
        )


def _require_bounds(wish: CommandWish) -> None:
    if not wish.verb or len(wish.verb) > 40 or not wish.verb.replace("-", "").isalnum():  # noqa: PLR2004
        raise Refused(f"verb {wish.verb[:40]!r} is no word; the node's agent knows verify, ack and others")
    if len(wish.arguments) > _ARGUMENTS_MAX or any(
        max(len(k), len(v)) > _ARGUMENT_MAX for k, v in wish.arguments.items()
    ):
        raise Refused(f"at most {_ARGUMENTS_MAX} arguments of at most {_ARGUMENT_MAX} characters are sent")
    if wish.timeout_s is not None and not 0 < wish.timeout_s <= TIMEOUT_MAX_S:
        raise Refused(f"timeout_s must be above 0 and at most {TIMEOUT_MAX_S:.0f} seconds")
