"""From the plan to orders, and from what is observed to closed operations. Shells around pure rules.

Everything of one cycle is one commit, so that a crash leaves all of it or none.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuherd.errors import Refused
from gpuherd.holds import SCALER
from gpuherd.names import NodeName, OperationId
from gpuherd.ray import RayNode
from gpuherd.wire.documents import State
from gpuherd_autoscaler import operations, orders, term
from gpuherd_autoscaler.book import Book, Intent, ending, joined
from gpuherd_autoscaler.ledger import Change, Mode, Note, Operation, OperationKind
from gpuherd_autoscaler.operations import TIMEOUT_S
from gpuherd_autoscaler.orders import Ask
from gpuherd_autoscaler.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """How many orders changed, and why those of other nodes could not."""

    changed: int = 0
    refused: Mapping[NodeName, str] = field(default_factory=dict)


def carry_out(book: Book, plan: Plan) -> Carried:
    """Commit and publish what the plan asks of the nodes.

    An order that its document cannot hold is left out and named; it must not cost the other nodes
    theirs. Raises LedgerFailed; then nothing of the plan is carried out.
    """
    if plan.is_silent:
        return Carried()
    open_operations = book.ledger.operations(only_open=True)
    changes: list[Change] = []
    refused: dict[NodeName, str] = {}
    for intent, operation_id in _intents(book, plan):
        try:
            change = book.prepare(intent, operation_id, open_operations)
        except Refused as refusal:
            refused[intent.node] = str(refusal)
        else:
            changes += [] if change is None else [change]
    book.commit(joined(changes))
    return Carried(changed=len(changes), refused=refused)


def _intents(book: Book, plan: Plan) -> Iterator[tuple[Intent, OperationId]]:
    kinds = itertools.chain(
        ((node, OperationKind.SERVE) for node in plan.serve),
        ((node, OperationKind.RELEASE) for node in plan.release),
    )
    for node, kind in kinds:
        reason = plan.reasons.get(node, kind.value)
        order = book.order(node)
        if order is not None and order.serve is (kind is OperationKind.SERVE):
            continue
        operation_id = book.new_id()
        ask = (
            orders.serve(operation_id, reason, book.standing(node))
            if kind is OperationKind.SERVE
            else orders.release(operation_id, reason, since=book.clock.wall())
        )
        intent = Intent(kind=kind, node=node, ask=ask, by=SCALER, reason=reason, timeout_s=TIMEOUT_S[kind])
        yield intent, operation_id


def observe(book: Book, in_ray: Mapping[NodeName, RayNode], notes: tuple[Note, ...] = ()) -> None:
    """Move open operations on by what is known now, and record ``notes`` with them.

    A release that Ray denied ends with the order to serve: the no is taken. Raises LedgerFailed; the
    operations stay as they were and are looked at again.
    """
    wall = book.clock.wall()
    changes = [Change(notes=notes)]
    for operation in book.ledger.operations(only_open=True):
        node = operation.node
        moved = operations.advance(
            operation, book.state(node), in_ray.get(node), book.standing(node), wall=wall
        )
        if moved is operation:
            continue
        told = () if moved.is_open else (ending(moved),)
        back = _serve_again(book, moved) if operations.was_denied(moved) else Change()
        changes.append(Change(orders=back.orders, operations=(moved,), notes=told))
    book.commit(joined(changes))


def _serve_again(book: Book, denied: Operation) -> Change:
    ask = orders.serve(denied.id, denied.result, book.standing(denied.node))
    try:
        order = book.next_order(denied.node, ask)
    except Refused:  # too much is unconfirmed; the next plan that wants the node asks again
        order = None
    return Change(orders=(order,) if order else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TermNeed:
    """A term that has to be taken: above ``highest``, because it is the start or nodes are ``ahead``."""

    highest: int
    ahead: Mapping[NodeName, str] = field(default_factory=dict)
    outliers: tuple[NodeName, ...] = ()


def term_need(book: Book, states: Mapping[NodeName, State], *, is_start: bool) -> TermNeed | None:
    """Return what makes a new term necessary: the start, or nodes that obey what we do not know."""
    own = book.ledger.term
    ahead = dict(term.behind(own, book.ledger.orders, states.values()))
    believable = term.reported(own, states)
    ahead = {n: why for n, why in ahead.items() if n not in believable.outliers}
    if not (is_start or ahead):
        return None
    return TermNeed(highest=believable.highest, ahead=ahead, outliers=believable.outliers)


def take_term(book: Book, states: Mapping[NodeName, State], need: TermNeed, *, fresh: int) -> None:
    """Take the term ``fresh``: every order is written anew under it.

    A ledger that its nodes have overtaken only recommends from then on, and what such a node does now
    becomes its order. Raises LedgerFailed; the term is then not taken.
    """
    ahead = need.ahead
    wall = book.clock.wall()
    notes = [Note(at=wall, kind="term.taken", reason=f"term {fresh}, after {need.highest}")]
    notes += [Note(at=wall, kind="ledger.behind", reason=why, node=n) for n, why in sorted(ahead.items())]
    notes += [
        Note(at=wall, kind="term.unbelievable", reason="reports a term out of reach", node=n)
        for n in need.outliers
    ]
    rewritten = (
        book.next_order(n, _same(states.get(n), n in ahead), term=fresh)
        for n in book.herd.names
        if n in book.ledger.orders or n in ahead
    )
    book.commit(
        Change(
            term=fresh,
            mode=Mode.RECOMMEND if ahead else None,
            orders=tuple(o for o in rewritten if o is not None),
            notes=tuple(notes),
        )
    )


def _same(state: State | None, is_ahead: bool) -> Ask:
    return Ask(serve=orders.does_serve(state), reason="as it was found") if is_ahead else Ask()
