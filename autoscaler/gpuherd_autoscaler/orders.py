"""From what is asked of a node to its next order. Pure: nothing here is durable or published yet.

A hold is carried from order to order by its id until it is lifted; a lifted id is carried until the node
has said, under an order that lifted it, that it no longer lists the hold. Holds that only the node's own
state lists (health, repair, direct ones) are never copied here.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from gpuherd import holds
from gpuherd.errors import Refused
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import ClusterName, HoldId, NodeName, OperationId, PoolName
from gpuherd.phases import Phase
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Desired, State
from gpuherd_autoscaler.ledger import Order

USER_DRAIN_S: Final = 3_600.0
_MAX_HOLDS: Final = 64
_MAX_LIFTED: Final = 256
_HOLD: Final = "hold-"
_IN_RAY: Final = (Phase.JOINING, Phase.MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every order of one node carries along, whatever is asked."""

    cluster: ClusterName
    node: NodeName
    term: int
    pool: PoolName
    pool_size: int
    head: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What shall change. ``serve`` None = as it was."""

    op_id: OperationId | None = None
    reason: str = ""
    serve: bool | None = None
    add: tuple[Hold, ...] = ()
    lift: tuple[HoldId, ...] = field(default=())


def drain(op_id: OperationId, hold: Hold) -> Ask:
    """Return the ask of a person's drain: the scaler's own wish for the node stays what it was."""
    return Ask(op_id=op_id, reason=hold.reason, add=(hold,))


def user_hold(
    op_id: OperationId,
    by: str,
    reason: str,
    *,
    since: float,
    for_s: float | None = USER_DRAIN_S,
    on_deadline: OnDeadline = OnDeadline.WAIT,
) -> Hold:
    """Return a person's drain hold; its id names the operation that made it. ``for_s`` None = no deadline."""
    owner = holds.user(by)
    return Hold(
        id=HoldId(_HOLD + op_id),
        owner=owner,
        kind=HoldKind.DRAIN,
        reason=reason or f"manual by {owner.removeprefix('user:')}",
        since=since,
        for_s=for_s,
        on_deadline=on_deadline,
    )


def maker(hold_id: HoldId) -> OperationId | None:
    """Return the operation that made a hold of ours, None for any other hold."""
    return OperationId(hold_id.removeprefix(_HOLD)) if hold_id.startswith(_HOLD) else None


def serve(op_id: OperationId, reason: str, standing: Collection[Hold]) -> Ask:
    """Return the ask to serve. It lifts the scaler's own holds and nobody else's."""
    return Ask(
        op_id=op_id,
        reason=reason,
        serve=True,
        lift=tuple(h.id for h in standing if h.owner == holds.SCALER),
    )


def join(op_id: OperationId, by: str, reason: str, standing: Collection[Hold]) -> Ask:
    """Return the ask of a person who wants the node to serve: it lifts everything that stands.

    Raises Refused with each hold that ``by`` may not lift; a join that would stay out is no join.
    """
    owner = holds.user(by)
    said = reason or f"joined by {owner.removeprefix('user:')}"
    refusals = [why for h in standing if h.owner != holds.SCALER and (why := holds.refuse_lift(h, owner))]
    if refusals:
        raise Refused("; ".join(refusals))
    return Ask(op_id=op_id, reason=said, serve=True, lift=tuple(h.id for h in standing))


def release(op_id: OperationId, reason: str, *, since: float) -> Ask:
    """Return the ask to leave Ray when Ray, too, finds the node idle."""
    hold = Hold(
        id=HoldId(_HOLD + op_id),
        owner=holds.SCALER,
        kind=HoldKind.DRAIN,
        reason=reason,
        since=since,
    )
    return Ask(op_id=op_id, reason=reason, serve=False, add=(hold,))


def undrain(op_id: OperationId, by: str, standing: Collection[Hold], only: HoldId | None = None) -> Ask:
    """Return the ask that lifts ``only``, or every hold of people and services that ``by`` may lift.

    The scaler's own holds say that a node is not wanted; a blanket undrain leaves them. Raises Refused
    with each reason when nothing could be lifted.
    """
    owner = holds.user(by)
    chosen = [h for h in standing if (h.owner != holds.SCALER if only is None else h.id == only)]
    if not chosen:
        raise Refused(f"hold {only} does not stand" if only else "no hold stands that an undrain could lift")
    refusals = {h.id: holds.refuse_lift(h, owner) for h in chosen}
    lift = tuple(i for i, why in refusals.items() if why is None)
    if not lift:
        raise Refused("; ".join(why for why in refusals.values() if why))
    return Ask(op_id=op_id, reason=f"undrained by {owner.removeprefix('user:')}", lift=lift)


def standing(order: Order | None, state: State | None) -> tuple[Hold, ...]:
    """Return every hold that stands as far as is known: ours and the node's own, without the lifted."""
    return holds.union(
        order.holds if order else (),
        state.holds if state else (),
        lifted=order.lifted if order else (),
    )


def twin(hold: Hold, among: Collection[Hold]) -> Hold | None:
    """Return the standing hold that says what ``hold`` would say, so that it need not be added."""
    what = (hold.owner, hold.kind, hold.for_s, hold.on_deadline)
    return next((h for h in among if (h.owner, h.kind, h.for_s, h.on_deadline) == what), None)


def does_serve(state: State | None) -> bool:
    """Say whether the node serves, or would but for its holds, by whatever order or by none."""
    if state is None:
        return False
    return state.serve or (state.observed is None and state.phase in _IN_RAY)


def has_obeyed(state: State | None, mark: tuple[int, int]) -> bool:
    """Say whether the node obeys the order of this mark, or a later one."""
    return bool(state and state.observed and (state.observed.term, state.observed.generation) >= mark)


def next_order(current: Order | None, ask: Ask, state: State | None, frame: Frame) -> Order:
    """Return the order that follows; ``current`` itself when it already says all of it.

    A node without an order keeps what it does unless the ask says otherwise. Raises Refused when the
    document would outgrow its bounds.
    """
    before = current.serve if current else does_serve(state)
    lifted = (*(current.lifted if current else ()), *ask.lift)
    kept = holds.union(current.holds if current else (), ask.add, lifted=lifted)
    wants = before if ask.serve is None else ask.serve
    if current is not None and _says(current, frame.term, wants, kept, lifted):
        return current
    if current is not None and has_obeyed(state, current.mark):
        lifted = tuple(i for i in lifted if i in ask.lift or _lists(state, i))
    lifted = tuple(dict.fromkeys(lifted))
    if len(kept) > _MAX_HOLDS or len(lifted) > _MAX_LIFTED:
        raise Refused(f"{frame.node} has {len(kept)} holds and {len(lifted)} lifts that it has not confirmed")
    return _order(current, ask, frame, Content(serve=wants, holds=kept, lifted=lifted))


def _says(current: Order, term: int, wants: bool, kept: tuple[Hold, ...], lifted: tuple[HoldId, ...]) -> bool:
    return (
        current.term == term
        and current.serve == wants
        and {h.id for h in current.holds} == {h.id for h in kept}
        and set(current.lifted) == set(lifted)
    )


def _lists(state: State | None, hold_id: HoldId) -> bool:
    return state is not None and any(h.id == hold_id for h in state.holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What an order says, without its position."""

    serve: bool
    holds: tuple[Hold, ...]
    lifted: tuple[HoldId, ...]


def _order(current: Order | None, ask: Ask, frame: Frame, content: Content) -> Order:
    op_id = ask.op_id or (current.op_id if current else None)
    reason = ask.reason or (decode(current.payload, Desired).reason if current else "")
    document = Desired(
        cluster=frame.cluster,
        node=frame.node,
        term=frame.term,
        generation=current.generation + 1 if current else 1,
        serve=content.serve,
        holds=content.holds,
        lifted=content.lifted,
        head=frame.head,
        pool=frame.pool,
        pool_size=frame.pool_size,
        op_id=op_id,
        reason=reason[:1_000],
    )
    return Order(
        node=frame.node,
        term=document.term,
        generation=document.generation,
        serve=content.serve,
        holds=content.holds,
        lifted=content.lifted,
        op_id=op_id,
        payload=encode(document),
    )
