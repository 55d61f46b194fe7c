"""Which term the scaler writes under, and whether its ledger has fallen behind its nodes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuherd.fence import MAX_TERM_STEP
from gpuherd.names import NodeName
from gpuherd.wire.documents import State
from gpuherd_autoscaler.ledger import Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``highest`` believable term; ``outliers`` report one that other nodes would refuse."""

    highest: int
    outliers: tuple[NodeName, ...] = ()


def reported(own: int, states: Mapping[NodeName, State]) -> Terms:
    """Return the highest term that nodes obey, as far as every other node could follow it.

    A term more than MAX_TERM_STEP above the next lower known one is left out: following one forged or
    broken report would deafen all the other nodes.
    """
    seen = sorted((s.observed.term, name) for name, s in states.items() if s.observed is not None)
    highest = own or (seen[0][0] if seen else 0)
    outliers = []
    for term, name in seen:
        if term - highest > MAX_TERM_STEP:
            outliers.append(name)
        else:
            highest = max(highest, term)
    return Terms(highest=highest, outliers=tuple(outliers))


def behind(
    own: int, orders: Mapping[NodeName, Order], states: Iterable[State]
) -> tuple[tuple[NodeName, str], ...]:
    """Return each node that obeys an order which the ledger does not know, and how that shows.

    It means that the ledger was lost, restored from a backup, or that another scaler wrote.
    """
    return tuple((s.node, why) for s in states if (why := _unknown(own, orders.get(s.node), s)) is not None)


def _unknown(own: int, order: Order | None, state: State) -> str | None:
    if state.observed is None:
        return None
    seen = (state.observed.term, state.observed.generation)
    if state.observed.term > own:
        return f"it obeys term {seen[0]}, the ledger knows {own}"
    if order is None:
        return f"it obeys generation {seen[1]} of term {seen[0]}, the ledger has no order for it"
    if seen > order.mark:
        return f"it obeys generation {seen[1]} of term {seen[0]}, the ledger's is {order.generation}"
    return None
