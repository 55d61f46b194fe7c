"""The scaler's ledger on a simulated disk: it outlives the scaler, takes every commit, or fails."""

from collections.abc import Mapping
from types import MappingProxyType

from gpuherd.names import NodeName, OperationId
from gpuherd_autoscaler.ledger import Change, Event, LedgerFailed, Mode, Operation, Order
from gpuherd_autoscaler.wishes import Wishes


class MemoryLedger:
    """``gpuherd_autoscaler.ledger.Ledger`` in memory."""

    def __init__(self) -> None:
        self.is_full = False
        self._term = 0
        self._mode: Mode | None = None
        self._wishes = Wishes()
        self._orders: dict[NodeName, Order] = {}
        self._operations: dict[OperationId, Operation] = {}
        self._events: list[Event] = []

    @property
    def was_empty(self) -> bool:
        """Say whether nothing was ever written."""
        return not (self._orders or self._events or self._term or self._mode)

    @property
    def term(self) -> int:
        """Return the highest term taken."""
        return self._term

    @property
    def mode(self) -> Mode | None:
        """Return the mode set last."""
        return self._mode

    @property
    def wishes(self) -> Wishes:
        """Return what people set last, also what is over by now."""
        return self._wishes

    @property
    def orders(self) -> Mapping[NodeName, Order]:
        """Return each node's order."""
        return MappingProxyType(self._orders)

    def commit(self, change: Change) -> tuple[Event, ...]:
        """Take the change whole; raises LedgerFailed while the disk is full."""
        if self.is_full:
            raise LedgerFailed("cannot record: the simulated disk is full")
        if change.term is not None:
            self._term = change.term
        if change.mode is not None:
            self._mode = change.mode
        if change.wishes is not None:
            self._wishes = change.wishes
        self._orders.update({order.node: order for order in change.orders})
        self._operations.update({operation.id: operation for operation in change.operations})
        first = len(self._events) + 1
        events = tuple(Event(id=first + i, note=note) for i, note in enumerate(change.notes))
        self._events.extend(events)
        return events

    def operation(self, operation_id: OperationId) -> Operation | None:
        """Return one operation."""
        return self._operations.get(operation_id)

    def operations(self, *, only_open: bool = False, limit: int = 1_000) -> tuple[Operation, ...]:
        """Return operations, newest first; of open ones all."""
        found = [o for o in reversed(self._operations.values()) if o.is_open or not only_open]
        return tuple(found if only_open else found[:limit])

    def requested(self, request_key: str) -> Operation | None:
        """Return the operation that a request with this key led to."""
        return next(
            (o for o in self._operations.values() if request_key and o.request_key == request_key), None
        )

    def events(self, *, after: int, limit: int = 1_000) -> tuple[Event, ...]:
        """Return events with numbers above ``after``, oldest first."""
        return tuple(self._events[after : after + limit])
