"""The ledger: what the scaler has decided to do, written down before it is done. Records and protocol.

The broker carries these decisions and may lose them; the ledger never does. Truth about nodes is not in
here: it is observed anew, always.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpuherd.errors import Refused
from gpuherd.holds import Hold
from gpuherd.names import HoldId, NodeName, OperationId, RayNodeId
from gpuherd.rest import OperationState
from gpuherd_autoscaler.wishes import Wishes


class LedgerFailed(Refused):
    """The disk did not take the record; nothing was changed and nothing may be acted on."""


class Mode(enum.StrEnum):
    """Whether plans are carried out or only shown. Requests of people are carried out in both."""

    ENFORCE = "enforce"
    RECOMMEND = "recommend"


class OperationKind(enum.StrEnum):
    """What an operation intends for its node."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    LEAVE = "leave"
    """A person's drain without end: it takes the time that running work takes."""
    JOIN = "join"
    """A person wants the node to serve, whatever the plan says of it."""
    SERVE = "serve"
    RELEASE = "release"
    COMMAND = "command"
    """Something that its agent does once; carried by no order, so its generation is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the operation aimed at when it was made: the incarnations of raylet, agent and host."""

    ray_node_id: RayNodeId | None = None
    epoch: int | None = None
    boot_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something observed while an operation was open; ``at`` is wall-clock seconds."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A durable intent. It is closed by what is observed, never by what was sent.

    ``term`` and ``generation`` are those of the order which carries the intent; ``lifts`` are the holds
    that it ends; ``request_key`` makes a repeated request find this operation (empty = none was given).
    """

    id: OperationId
    kind: OperationKind
    node: NodeName
    by: str
    reason: str
    created_at: float
    term: int
    generation: int
    state: OperationState = OperationState.OPEN
    closed_at: float | None = None
    result: str = ""
    output: str = ""
    """What a command brought, such as a path on the node."""
    steps: tuple[Step, ...] = ()
    target: Target = Target()
    lifts: tuple[HoldId, ...] = ()
    timeout_s: float = 3_600.0
    request_key: str = ""

    @property
    def is_open(self) -> bool:
        """Say whether its outcome is not known yet."""
        return self.state is OperationState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one node was told last. ``payload`` is the desired document, byte for byte as published."""

    node: NodeName
    term: int
    generation: int
    serve: bool
    holds: tuple[Hold, ...]
    lifted: tuple[HoldId, ...]
    op_id: OperationId | None
    payload: bytes

    @property
    def mark(self) -> tuple[int, int]:
        """Return its position: the node obeys the higher one."""
        return self.term, self.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened, before the ledger gives it a number."""

    at: float
    kind: str
    reason: str
    node: NodeName | None = None
    operation: OperationId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A note with its number; numbers rise and are never used twice."""

    id: int
    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Everything that becomes true together or not at all. None = as it was."""

    term: int | None = None
    mode: Mode | None = None
    wishes: Wishes | None = None
    orders: tuple[Order, ...] = ()
    operations: tuple[Operation, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to write."""
        facts = (self.term, self.mode, self.wishes)
        return not (self.orders or self.operations or self.notes) and facts == (None, None, None)


class Ledger(Protocol):
    """Durable memory with one writer. Reads answer from what was committed."""

    @property
    def was_empty(self) -> bool:
        """Say whether the ledger was new, or had to be begun anew, when it was opened."""
        ...

    @property
    def term(self) -> int:
        """Return the highest term that was taken; 0 = none yet."""
        ...

    @property
    def mode(self) -> Mode | None:
        """Return the mode that was set last, None when nobody set one."""
        ...

    @property
    def wishes(self) -> Wishes:
        """Return what people set last for the whole herd, also what is over by now."""
        ...

    @property
    def orders(self) -> Mapping[NodeName, Order]:
        """Return each node's order."""
        ...

    def commit(self, change: Change) -> tuple[Event, ...]:
        """Write the change and return once it is on disk, with its notes numbered.

        Raises LedgerFailed; then nothing of it is true.
        """
        ...

    def operation(self, operation_id: OperationId) -> Operation | None:
        """Return one operation."""
        ...

    def operations(self, *, only_open: bool = False, limit: int = 1_000) -> tuple[Operation, ...]:
        """Return operations, newest first: all open ones, or of all at most ``limit``."""
        ...

    def requested(self, request_key: str) -> Operation | None:
        """Return the operation that a request with this key led to."""
        ...

    def events(self, *, after: int, limit: int = 1_000) -> tuple[Event, ...]:
        """Return kept events with numbers above ``after``, oldest first."""
        ...
