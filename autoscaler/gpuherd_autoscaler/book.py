"""The one way from a wish to an act: prepare a change, commit it, only then publish it.

What is committed is what all others read; a commit that fails changes nothing and publishes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpuherd.errors import Conflict, NotFound, Retryable
from gpuherd.holds import Hold
from gpuherd.names import ClusterName, NodeName, OperationId, PoolName
from gpuherd.shell.clock import Clock
from gpuherd.wire.documents import State
from gpuherd_autoscaler import operations, orders
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.ledger import Change, Event, Ledger, Mode, Note, Operation, OperationKind, Order, Step
from gpuherd_autoscaler.orders import Ask, Frame
from gpuherd_autoscaler.pools import Pool, index


@dataclass(frozen=True, slots=True)
class Herd:
    """Which nodes are ours and what every order tells them."""

    cluster: ClusterName
    pools: tuple[Pool, ...]
    head: tuple[str, ...] = ()
    members: dict[NodeName, PoolName] = field(init=False)
    sizes: dict[PoolName, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", index(self.pools))
        object.__setattr__(self, "sizes", {p.name: len(p.names) for p in self.pools})

    @property
    def names(self) -> tuple[NodeName, ...]:
        """Return every listed node."""
        return tuple(self.members)

    def frame(self, node: NodeName, term: int) -> Frame:
        """Return what an order of this node carries; raises NotFound for a node of no pool."""
        pool = self.members.get(node)
        if pool is None:
            raise NotFound(f"node {node} is in no pool; `agentctl nodes` lists them")
        return Frame(
            cluster=self.cluster,
            node=node,
            term=term,
            pool=pool,
            pool_size=self.sizes[pool],
            head=self.head,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an operation is to be: who wants what of which node, and why."""

    kind: OperationKind
    node: NodeName
    ask: Ask
    by: str
    reason: str
    timeout_s: float
    request_key: str = ""
    remark: str = ""
    """What the one who asks ought to know from the start; the first step."""
    follows_present: bool = False
    """An order that says it already is followed all the same."""


NewId = Callable[[], OperationId]


class Book:
    """Ledger, inventory and herd together; the only caller of ``Ledger.commit``."""

    def __init__(
        self,
        ledger: Ledger,
        inventory: Inventory,
        herd: Herd,
        clock: Clock,
        *,
        start_mode: Mode,
        new_id: NewId,
    ) -> None:
        self.ledger = ledger
        self.inventory = inventory
        self.herd = herd
        self.clock = clock
        self.new_id = new_id
        self._start_mode = start_mode
        self._why_not_leading: Callable[[], str] = str
        self._on_order: list[Callable[[NodeName], None]] = []
        self._on_event: list[Callable[[Event], None]] = []

    @property
    def mode(self) -> Mode:
        """Return the mode that was set last, else the one to start in."""
        return self.ledger.mode or self._start_mode

    def lead_by(self, why_not_leading: Callable[[], str]) -> None:
        """Refuse every order while ``why_not_leading`` gives a reason: another scaler leads."""
        self._why_not_leading = why_not_leading

    def on_order(self, call: Callable[[NodeName], None]) -> None:
        """Call back with each node whose order was committed."""
        self._on_order.append(call)

    def on_event(self, call: Callable[[Event], None]) -> Callable[[], None]:
        """Call back with each committed event; the returned function ends that."""
        self._on_event.append(call)
        return lambda: self._on_event.remove(call)

    def state(self, node: NodeName) -> State | None:
        """Return the node's newest state document."""
        return self.inventory.state(node)

    def order(self, node: NodeName) -> Order | None:
        """Return the node's committed order."""
        return self.ledger.orders.get(node)

    def standing(self, node: NodeName) -> tuple[Hold, ...]:
        """Return every hold that stands on the node, strongest first."""
        return orders.standing(self.order(node), self.state(node))

    def next_order(self, node: NodeName, ask: Ask, *, term: int | None = None) -> Order | None:
        """Return the order that ``ask`` leads to, None when the present one says it already.

        Raises NotFound, Refused (Conflict while another scaler leads), and Retryable while no term has been
        taken yet.
        """
        if term is None:
            self._require_lead()
        frame = self.herd.frame(node, term or self.ledger.term)
        if frame.term == 0:
            raise Retryable("the scaler has just started and knows no term yet; try again in a few seconds")
        current = self.order(node)
        following = orders.next_order(current, ask, self.state(node), frame)
        return None if following is current else following

    def prepare(
        self, intent: Intent, operation_id: OperationId, open_operations: Iterable[Operation]
    ) -> Change | None:
        """Return the change that opens the intended operation, None when nothing would change."""
        following = self.next_order(intent.node, intent.ask)
        order = following or (self.order(intent.node) if intent.follows_present else None)
        if order is None:
            return None
        wall = self.clock.wall()
        operation = Operation(
            id=operation_id,
            kind=intent.kind,
            node=intent.node,
            by=intent.by,
            reason=intent.reason,
            created_at=wall,
            term=order.term,
            generation=order.generation,
            target=operations.target(self.state(intent.node)),
            lifts=intent.ask.lift,
            timeout_s=intent.timeout_s,
            request_key=intent.request_key,
            steps=(Step(at=wall, text=intent.remark),) if intent.remark else (),
        )
        makers = {made for h in intent.ask.lift if (made := orders.maker(h))}
        ended = tuple(operations.superseded(operation, open_operations, makers, wall=wall))
        notes = [Note(at=wall, kind=f"{intent.kind}.asked", reason=f"{intent.reason} (by {intent.by})",
                      node=intent.node, operation=operation_id)]  # fmt: skip
        return Change(
            orders=(following,) if following else (),
            operations=(operation, *ended),
            notes=(*notes, *(ending(o) for o in ended)),
        )

    def _require_lead(self) -> None:
        if why := self._why_not_leading():
            raise Conflict(
                f"this autoscaler waits as standby: {why}; ask the leader, or `agentctl scaler promote`"
            )

    def commit(self, change: Change) -> None:
        """Record the change, then let its orders be published and its events be told.

        Raises LedgerFailed, and Conflict while another scaler leads; then nothing was recorded, published
        or told.
        """
        if change.term is None and (change.orders or change.operations):
            self._require_lead()
        events = self.ledger.commit(change)
        for order in change.orders:
            for tell_order in self._on_order:
                tell_order(order.node)
        for event in events:
            for tell_event in tuple(self._on_event):
                tell_event(event)


def ending(operation: Operation) -> Note:
    """Return the note that a closed operation leaves."""
    return Note(
        at=operation.closed_at or operation.created_at,
        kind=f"{operation.kind}.{operation.state}",
        reason=operation.result,
        node=operation.node,
        operation=operation.id,
    )


def joined(changes: Sequence[Change]) -> Change:
    """Return one change out of several that touch different nodes and neither term nor mode."""
    return Change(
        orders=tuple(o for c in changes for o in c.orders),
        operations=tuple(o for c in changes for o in c.operations),
        notes=tuple(n for c in changes for n in c.notes),
    )
