"""How operations end: by what is observed of their node, or by time. Pure.

What was sent proves nothing; a node's own word under the order, or a later one, does.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from gpuherd.holds import Hold
from gpuherd.phases import Phase
from gpuherd.ray import RayNode
from gpuherd.rest import OperationState
from gpuherd.wire.documents import Ack, State
from gpuherd_autoscaler.ledger import Operation, OperationKind, Step, Target
from gpuherd_autoscaler.orders import has_obeyed

TIMEOUT_S: Final[Mapping[OperationKind, float]] = {
    OperationKind.DRAIN: 3_600.0,
    OperationKind.UNDRAIN: 600.0,
    OperationKind.LEAVE: 7 * 86_400.0,
    OperationKind.JOIN: 900.0,
    OperationKind.SERVE: 900.0,
    OperationKind.RELEASE: 600.0,
    OperationKind.COMMAND: 120.0,
}
"""How long each kind may stay open; a drain's deadline is added to its own."""

RAY_SAYS_NO_S: Final = 45.0
"""A released node that obeys its order and is still a member after this was refused by Ray: it is busy."""

_MAX_STEPS: Final = 40
_WISHES: Final = (OperationKind.SERVE, OperationKind.JOIN)
_ENDS: Final[Mapping[OperationKind, tuple[OperationKind, ...]]] = {
    OperationKind.SERVE: (OperationKind.RELEASE,),
    OperationKind.JOIN: (OperationKind.RELEASE,),
    OperationKind.RELEASE: _WISHES,
}
_LEAVES: Final = (OperationKind.DRAIN, OperationKind.LEAVE, OperationKind.RELEASE)


def target(state: State | None) -> Target:
    """Return the incarnations that an operation on this node aims at now."""
    if state is None:
        return Target()
    return Target(ray_node_id=state.ray_node_id, epoch=state.epoch, boot_id=state.boot_id)


def advance(
    operation: Operation, state: State | None, ray: RayNode | None, standing: Collection[Hold], *, wall: float
) -> Operation:
    """Return the operation with new steps, and closed when it has ended; itself when nothing is new.

    ``standing`` are the node's holds, ``wall`` is wall-clock seconds.
    """
    if operation.kind is OperationKind.COMMAND:
        return _command(operation, state, wall)
    stepped = _with_step(operation, describe(operation, state, ray), wall)
    result = _ended(stepped, state, standing, wall)
    if result is None:
        return stepped
    return closed(stepped, result[0], result[1], wall=wall)


_ACK_ENDS: Final[Mapping[str, OperationState]] = {
    "done": OperationState.DONE,
    "failed": OperationState.FAILED,
    "refused": OperationState.FAILED,
    "expired": OperationState.FAILED,
}


def answered(operation: Operation, ack: Ack, *, wall: float) -> Operation:
    """Return the command's operation after this answer of its node; itself when that says nothing new."""
    if not operation.is_open:
        return operation
    text = f"{ack.outcome}: {ack.reason}" if ack.reason else ack.outcome
    end = _ACK_ENDS.get(ack.outcome)
    if end is None:
        return _with_step(operation, text, wall)
    result = ack.reason or ack.outcome if end is OperationState.DONE else text
    return dataclasses.replace(closed(operation, end, result, wall=wall), output=ack.output)


def _command(operation: Operation, state: State | None, wall: float) -> Operation:
    """A command whose agent has ended has no end that anybody can tell, and waits for none."""
    if state is not None and operation.target.epoch is not None and state.epoch > operation.target.epoch:
        why = "the agent restarted before it told an end; look at the node before you ask again"
        return closed(operation, OperationState.FAILED, why, wall=wall)
    if wall - operation.created_at > operation.timeout_s:
        last = operation.steps[-1].text if operation.steps else "the node did not answer"
        why = f"no end after {operation.timeout_s:.0f} s: {last}"
        return closed(operation, OperationState.ABANDONED, why, wall=wall)
    return operation


def closed(operation: Operation, state: OperationState, result: str, *, wall: float) -> Operation:
    """Return the operation in a final state, with its result as the last step."""
    stepped = _with_step(operation, result, wall)
    return dataclasses.replace(stepped, state=state, result=result, closed_at=wall)


def describe(operation: Operation, state: State | None, ray: RayNode | None) -> str:
    """Return one line on where the node stands with this operation."""
    if state is None:
        return "the node has not been heard of"
    mark = operation.term, operation.generation
    if not has_obeyed(state, mark):
        if state.refused and (state.refused.term, state.refused.generation) >= mark:
            return f"the node refused the order: {state.refused.why}"
        return f"waiting for the node to take the order (it is {state.phase.value})"
    parts = [state.phase.value]
    if state.reason:
        parts.append(state.reason)
    if state.phase is Phase.DRAINING and state.blockers:
        parts.append(f"still here: {', '.join(state.blockers)}")
    elif state.phase is Phase.DRAINING and state.witness.ray_workers:
        parts.append(f"{state.witness.ray_workers} Ray workers run")
    elif state.phase is Phase.DRAINING and ray is not None and ray.activity:
        parts.append(", ".join(ray.activity[:3]))
    elif state.phase is Phase.OUTSIDE and state.obstacles:
        parts.append(f"obstacles: {', '.join(state.obstacles)}")
    if state.latecomers:
        parts.append(f"CAME AFTER THE DRAIN: {', '.join(state.latecomers)}")
    return ": ".join(parts[:2]) + "".join(f"; {p}" for p in parts[2:])


def superseded(
    new: Operation, open_operations: Iterable[Operation], makers: Collection[str], *, wall: float
) -> Iterator[Operation]:
    """Yield, closed, the node's open operations whose intent ``new`` undoes.

    ``makers`` are the ids of operations whose holds ``new`` lifts.
    """
    for old in open_operations:
        if old.node != new.node or old.id == new.id:
            continue
        if old.id in makers and old.kind in (OperationKind.DRAIN, OperationKind.LEAVE):
            yield closed(old, OperationState.FAILED, f"undrained by {new.by}", wall=wall)
        elif old.kind in _ENDS.get(new.kind, ()):
            yield closed(old, OperationState.ABANDONED, f"overtaken: {new.reason}", wall=wall)


def was_denied(operation: Operation) -> bool:
    """Say whether Ray would not let a released node go: the no is taken and the node serves on."""
    return operation.kind is OperationKind.RELEASE and operation.state is OperationState.FAILED


def _ended(
    operation: Operation, state: State | None, standing: Collection[Hold], wall: float
) -> tuple[OperationState, str] | None:
    if state is not None and has_obeyed(state, (operation.term, operation.generation)):
        done = _fulfilled(operation, state, standing)
        if done is not None:
            return OperationState.DONE, done
        if operation.kind is OperationKind.JOIN and standing and not _lists_lifted(operation, state):
            strongest = next(iter(standing))
            return OperationState.FAILED, f"held by {strongest.owner}: {strongest.reason}"
        if operation.kind is OperationKind.RELEASE and _ray_said_no(operation, state, wall):
            return OperationState.FAILED, f"Ray keeps the node: {state.reason or 'it is not idle'}"
    if wall - operation.created_at > operation.timeout_s:
        return (
            OperationState.ABANDONED,
            f"no end after {operation.timeout_s:.0f} s: {operation.steps[-1].text}",
        )
    return None


def _ray_said_no(operation: Operation, state: State, wall: float) -> bool:
    return state.phase is Phase.MEMBER and wall - operation.created_at > RAY_SAYS_NO_S


def _fulfilled(operation: Operation, state: State, standing: Collection[Hold]) -> str | None:
    """Return the result when the node's own word ends the operation."""
    if operation.kind in _LEAVES:
        return "the node is outside" if state.phase is Phase.OUTSIDE else None
    if _lists_lifted(operation, state):
        return None
    if standing and operation.kind is OperationKind.JOIN:
        return None
    if standing:
        strongest = next(iter(standing))
        return f"held by {strongest.owner}: {strongest.reason}"
    if state.phase is Phase.MEMBER:
        return "the node serves"
    if operation.kind is OperationKind.UNDRAIN and not state.serve:
        return "no hold stands; the node is in standby"
    return None


def _lists_lifted(operation: Operation, state: State) -> bool:
    """Say whether the node still lists a hold that the operation lifts."""
    return any(h.id in operation.lifts for h in state.holds)


def _with_step(operation: Operation, text: str, wall: float) -> Operation:
    if operation.steps and operation.steps[-1].text == text:
        return operation
    first, rest = operation.steps[:1], operation.steps[1:][-(_MAX_STEPS - 2) :]
    return dataclasses.replace(operation, steps=(*first, *rest, Step(at=wall, text=text)))
