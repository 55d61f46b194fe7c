"""The scaler's pen in somebody's hand: desired documents with a term, generations and holds, as told.

For runs in which the documents themselves are the matter, not who decides on them.
"""

from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import HoldId, NodeName
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Desired
from gpuherd_sim.fleet import CLUSTER, POOL, Fleet


def hold(
    name: str,
    *,
    owner: str = "user:ann",
    kind: HoldKind = HoldKind.DRAIN,
    for_s: float | None = None,
    on_deadline: OnDeadline = OnDeadline.WAIT,
) -> Hold:
    """Return a hold whose reason is its name."""
    return Hold(
        id=HoldId(name),
        owner=owner,
        kind=kind,
        reason=name,
        since=0.0,
        for_s=for_s,
        on_deadline=on_deadline,
    )


class Hand:
    """Writes orders straight onto the broker, each with the next generation."""

    def __init__(self, fleet: Fleet, *, term: int = 1) -> None:
        self.term = term
        self._fleet = fleet
        self._generation = 0

    def order(
        self,
        name: NodeName,
        *holds: Hold,
        serve: bool = True,
        lifted: tuple[str, ...] = (),
        term: int | None = None,
    ) -> bytes:
        """Publish one node's desired document, retained, and return its bytes."""
        self._generation += 1
        document = Desired(
            cluster=CLUSTER,
            node=name,
            term=term or self.term,
            generation=self._generation,
            serve=serve,
            holds=holds,
            lifted=tuple(HoldId(i) for i in lifted),
            head=("head:6379",),
            pool=POOL,
            pool_size=len(self._fleet.hosts),
        )
        payload = encode(document)
        self._fleet.broker.publish(topics.node(CLUSTER, name, "desired"), payload, retain=True)
        return payload

    def serve_all(self) -> None:
        """Ask every node to serve."""
        for name in self._fleet.names:
            self.order(name)
