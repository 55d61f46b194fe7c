"""The scaler's durable part for tests: a book on a real ledger, and what nodes say to it."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gpuherd.bus import Receive
from gpuherd.fence import Mark
from gpuherd.holds import Hold
from gpuherd.names import ClusterName, NodeName, OperationId, PoolName
from gpuherd.phases import Phase
from gpuherd.shell.clock import SystemClock
from gpuherd.wire.codec import decode, digest
from gpuherd.wire.documents import Desired, Observed, State
from gpuherd_autoscaler import acts
from gpuherd_autoscaler.book import Book, Herd
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.ledger import Change, Mode
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.sqlite_ledger import SqliteLedger

CLUSTER = ClusterName("herd")
ONE, TWO = NodeName("n-1"), NodeName("n-2")
HERD = Herd(
    cluster=CLUSTER, pools=(Pool(name=PoolName("p"), nodes=("n-[1-3]",), min=0, max=3),), head=("h:6379",)
)


@contextmanager
def book(folder: Path, *, term: int = 1) -> Iterator[Book]:
    """Open the ledger in ``folder`` as a scaler that has started would, and close it as a crash does."""
    ledger = SqliteLedger(folder)
    made = Book(
        ledger,
        Inventory(),
        HERD,
        SystemClock(),
        start_mode=Mode.RECOMMEND,
        new_id=lambda: OperationId(f"op-{secrets.token_hex(6)}"),
    )
    try:
        if ledger.term == 0 and term:
            ledger.commit(Change(term=term))
        yield made
    finally:
        ledger.close()


def take_term(made: Book, states: Mapping[NodeName, State], *, is_start: bool) -> bool:
    """Take a term if one is needed, as the only scaler does; say whether one was."""
    need = acts.term_need(made, states, is_start=is_start)
    if need is not None:
        acts.take_term(made, states, need, fresh=need.highest + 1)
    return need is not None


def document(made: Book, node: NodeName = ONE) -> Desired:
    """Return the node's committed desired document."""
    order = made.order(node)
    assert order is not None
    return decode(order.payload, Desired)


def state(
    node: NodeName = ONE,
    *holds: Hold,
    phase: Phase = Phase.MEMBER,
    obeys: Desired | None = None,
    mark: Mark | None = None,
    epoch: int = 1,
    seq: int = 1,
) -> State:
    """Return what a node says; ``obeys`` = the document that it observes."""
    if obeys is not None:
        mark = Mark(term=obeys.term, generation=obeys.generation, digest=digest(b""))
    return State(
        cluster=CLUSTER,
        node=node,
        epoch=epoch,
        seq=seq,
        sent_at=0.0,
        phase=phase,
        serve=obeys.serve if obeys else phase is Phase.MEMBER,
        holds=holds,
        observed=None
        if mark is None
        else Observed(term=mark.term, generation=mark.generation, digest=mark.digest, phase=phase),
    )


class KeptBus:
    """A broker connection that only remembers what it was given, in order."""

    def __init__(self) -> None:
        self.is_connected = True
        self.kept: list[tuple[str, bytes]] = []

    def keep(self, topic: str, payload: bytes) -> None:
        """Remember it."""
        self.kept.append((topic, payload))

    def tell(self, topic: str, payload: bytes) -> None:
        """Remember it."""
        self.kept.append((topic, payload))

    def subscribe(self, pattern: str, receive: Receive) -> None:
        """Hear nothing."""

    def on_connect(self, call: Callable[[], None]) -> None:
        """Connect at once."""
        call()

    async def run(self) -> None:
        """Do nothing."""
