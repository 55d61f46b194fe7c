"""What people ask of nodes: drain, undrain, leave, join. Each is recorded with who and why, or refused."""

from dataclasses import dataclass
from typing import Final

from gpuherd import holds
from gpuherd.errors import Conflict, NotFound, Refused
from gpuherd.holds import Hold, OnDeadline
from gpuherd.names import HoldId, NodeName, OperationId
from gpuherd_autoscaler import admission, orders
from gpuherd_autoscaler.book import Book, Intent
from gpuherd_autoscaler.ledger import Mode, Operation, OperationKind
from gpuherd_autoscaler.lifecycle import foreign_hold
from gpuherd_autoscaler.operations import TIMEOUT_S
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.wishes import standing

MAX_FOR_S: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainWish:
    """A person's drain of one node, as ``kind`` DRAIN or LEAVE; they differ in what no ``for_s`` means."""

    node: NodeName
    by: str
    kind: OperationKind = OperationKind.DRAIN
    reason: str = ""
    for_s: float | None = None
    on_deadline: OnDeadline = OnDeadline.WAIT
    request_key: str = ""

    @property
    def patience_s(self) -> float | None:
        """Return the time that running work is given; None = all that it takes."""
        without = None if self.kind is OperationKind.LEAVE else orders.USER_DRAIN_S
        return without if self.for_s is None else self.for_s


class People:
    """Carries requests of people into the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def drain(self, wish: DrainWish) -> Operation:
        """Return the operation that drains the node; an equal one that stands is returned as it is.

        Raises NotFound, Refused (LedgerFailed and Conflict among them) and Retryable; nothing was asked
        of the node then.
        """
        repeated = self._repeated(wish.request_key, wish.kind, wish.node)
        if repeated is not None:
            return repeated
        if wish.for_s is not None and not 0 <= wish.for_s <= MAX_FOR_S:
            raise Refused(f"for_s must be 0 to {MAX_FOR_S:.0f} seconds")
        operation_id = self._book.new_id()
        hold = self.hold(wish, operation_id)
        order = self._book.order(wish.node)
        standing = orders.twin(hold, order.holds if order else ())
        if standing is not None and (made := self._maker(standing)) is not None:
            return made
        intent = Intent(
            kind=wish.kind,
            node=wish.node,
            ask=orders.drain(operation_id, hold),
            by=hold.owner,
            reason=hold.reason,
            timeout_s=TIMEOUT_S[wish.kind] + (hold.for_s or 0.0),
            request_key=wish.request_key,
        )
        return self._open(intent, operation_id)

    def hold(self, wish: DrainWish, operation_id: OperationId) -> Hold:
        """Return the hold that the wish would add."""
        return orders.user_hold(
            operation_id,
            wish.by,
            wish.reason[:500],
            since=self._book.clock.wall(),
            for_s=wish.patience_s,
            on_deadline=wish.on_deadline,
        )

    def join(self, node: NodeName, by: str, *, reason: str = "", request_key: str = "") -> Operation:
        """Return the operation that follows the node until it serves; raises as ``drain``.

        It lifts all that stands. Refused, with nothing changed, while a hold stands that is not ``by``'s to
        lift, or when as many nodes of the pool as it allows are asked to serve already.
        """
        repeated = self._repeated(request_key, OperationKind.JOIN, node)
        if repeated is not None:
            return repeated
        self._book.herd.frame(node, self._book.ledger.term)
        pool = self._pool(node)
        operation_id = self._book.new_id()
        ask = orders.join(operation_id, by, reason[:500], self._book.standing(node))
        admission.require_room(node, pool, [n for n in pool.names if self._is_asked(n)])
        intent = Intent(
            kind=OperationKind.JOIN,
            node=node,
            ask=ask,
            by=holds.user(by),
            reason=ask.reason,
            timeout_s=TIMEOUT_S[OperationKind.JOIN],
            request_key=request_key,
            remark=admission.outlook(pool, is_armed=self._book.mode is Mode.ENFORCE),
            follows_present=True,
        )
        return self._running_join(node, ask) or self._open(intent, operation_id)

    def _pool(self, node: NodeName) -> Pool:
        """Return the node's pool within the bounds that stand now."""
        pool = next(p for p in self._book.herd.pools if p.name == self._book.herd.members[node])
        return pool.sized(standing(self._book.ledger.wishes, self._book.clock.wall()))

    def _is_asked(self, node: NodeName) -> bool:
        """Say whether the node serves, or shall and may; the order counts before the node's own word."""
        order = self._book.order(node)
        asked = order.serve if order is not None else orders.does_serve(self._book.state(node))
        return asked and foreign_hold(self._book.standing(node)) is None

    def _running_join(self, node: NodeName, ask: orders.Ask) -> Operation | None:
        """A repeated join finds the first one while that runs and nothing else stands in its way."""
        found = (o for o in self._book.ledger.operations(only_open=True) if o.kind is OperationKind.JOIN)
        return None if ask.lift else next((o for o in found if o.node == node), None)

    def undrain(
        self, node: NodeName, by: str, *, only: HoldId | None = None, request_key: str = ""
    ) -> Operation:
        """Return the operation that lifts ``only``, or all that ``by`` may lift; raises as ``drain``."""
        repeated = self._repeated(request_key, OperationKind.UNDRAIN, node)
        if repeated is not None:
            return repeated
        self._book.herd.frame(node, self._book.ledger.term)
        operation_id = self._book.new_id()
        standing = self._book.standing(node)
        order = self._book.order(node)
        if only is not None and order is not None and only in order.lifted:
            standing = ()
        if running := self._running_undrain(node, only, is_held=bool(standing)):
            return running
        ask = orders.undrain(operation_id, by, standing, only)
        intent = Intent(
            kind=OperationKind.UNDRAIN,
            node=node,
            ask=ask,
            by=holds.user(by),
            reason=ask.reason,
            timeout_s=TIMEOUT_S[OperationKind.UNDRAIN],
            request_key=request_key,
        )
        return self._open(intent, operation_id)

    def _open(self, intent: Intent, operation_id: OperationId) -> Operation:
        open_operations = self._book.ledger.operations(only_open=True)
        change = self._book.prepare(intent, operation_id, open_operations)
        if change is None:
            raise Refused(f"{intent.node} is told so already")
        self._book.commit(change)
        return change.operations[0]

    def _repeated(self, key: str, kind: OperationKind, node: NodeName) -> Operation | None:
        found = self._book.ledger.requested(key) if key else None
        if found is not None and (found.kind, found.node) != (kind, node):
            raise Conflict(f"the key {key[:80]!r} belongs to the {found.kind} of {found.node}")
        return found

    def _maker(self, hold: Hold) -> Operation | None:
        made = orders.maker(hold.id)
        return self._book.ledger.operation(made) if made else None

    def _running_undrain(self, node: NodeName, only: HoldId | None, *, is_held: bool) -> Operation | None:
        """A repeated undrain finds the first one while that still runs and nothing else could be lifted."""
        if is_held:
            return None
        for operation in self._book.ledger.operations(only_open=True):
            is_same = only is None or only in operation.lifts
            if operation.node == node and operation.kind is OperationKind.UNDRAIN and is_same:
                return operation
        return None

    def operations(self, *, only_open: bool) -> tuple[Operation, ...]:
        """Return operations, newest first."""
        return self._book.ledger.operations(only_open=only_open)

    def operation(self, operation_id: OperationId) -> Operation:
        """Return one operation; raises NotFound."""
        found = self._book.ledger.operation(operation_id)
        if found is None:
            raise NotFound(f"operation {operation_id[:80]!r} is unknown")
        return found
