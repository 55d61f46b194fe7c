"""How operations end: by the node's own word under their order, or by time."""

import dataclasses

import msgspec
import pytest
from tests.kit.scaler import ONE, TWO, state

from gpuherd import holds
from gpuherd.fence import Mark
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, OperationId, RayNodeId
from gpuherd.phases import Phase
from gpuherd.ray import RayNode, RayStatus
from gpuherd.rest import OperationState
from gpuherd.wire.documents import RefusedDesired, State, Witness
from gpuherd_autoscaler import operations
from gpuherd_autoscaler.ledger import Operation, OperationKind
from gpuherd_autoscaler.operations import RAY_SAYS_NO_S, TIMEOUT_S

OPEN, DONE = OperationState.OPEN, OperationState.DONE
FAILED, ABANDONED = OperationState.FAILED, OperationState.ABANDONED
DRAIN, UNDRAIN = OperationKind.DRAIN, OperationKind.UNDRAIN
SERVE, RELEASE = OperationKind.SERVE, OperationKind.RELEASE
JOIN, LEAVE = OperationKind.JOIN, OperationKind.LEAVE
HELD = Hold(id=HoldId("a"), owner="user:ann", kind=HoldKind.DRAIN, reason="fan", since=0.0)
HEALTH = Hold(id=HoldId("h"), owner=holds.HEALTH, kind=HoldKind.EVICT, reason="gpu lost", since=0.0)


def operation(kind: OperationKind, *, op: str = "op-1", node: NodeName = ONE) -> Operation:
    return Operation(
        id=OperationId(op),
        kind=kind,
        node=node,
        by="user:ann",
        reason="fan",
        created_at=0.0,
        term=2,
        generation=3,
        lifts=(HELD.id,) if kind is UNDRAIN else (),
        timeout_s=TIMEOUT_S[kind],
    )


def says(phase: Phase, *listed: Hold, at: tuple[int, int] = (2, 3), serve: bool = False) -> State:
    said = state(ONE, *listed, phase=phase, mark=Mark(term=at[0], generation=at[1], digest="x"))
    return msgspec.structs.replace(said, serve=serve)


def after(kind: OperationKind, said: State | None, *standing: Hold, wall: float = 1.0) -> Operation:
    return operations.advance(operation(kind), said, None, standing, wall=wall)


@pytest.mark.parametrize(
    ("kind", "said", "standing", "ends"),
    [
        (DRAIN, None, (), OPEN),
        (DRAIN, says(Phase.OUTSIDE, at=(2, 2)), (), OPEN),
        (DRAIN, says(Phase.MEMBER), (HELD,), OPEN),
        (DRAIN, says(Phase.DRAINING), (HELD,), OPEN),
        (DRAIN, says(Phase.LEAVING), (HELD,), OPEN),
        (DRAIN, says(Phase.OUTSIDE), (HELD,), DONE),
        (DRAIN, says(Phase.OUTSIDE, at=(3, 1)), (HELD,), DONE),
        (RELEASE, says(Phase.MEMBER), (), OPEN),
        (RELEASE, says(Phase.OUTSIDE), (), DONE),
        (UNDRAIN, says(Phase.OUTSIDE, HELD, serve=True), (), OPEN),
        (UNDRAIN, says(Phase.OUTSIDE, serve=True), (), OPEN),
        (UNDRAIN, says(Phase.MEMBER, serve=True), (), DONE),
        (UNDRAIN, says(Phase.OUTSIDE), (), DONE),
        (UNDRAIN, says(Phase.OUTSIDE, HEALTH), (HEALTH,), DONE),
        (UNDRAIN, says(Phase.MEMBER, at=(1, 9)), (), OPEN),
        (SERVE, says(Phase.JOINING, serve=True), (), OPEN),
        (SERVE, says(Phase.MEMBER, serve=True), (), DONE),
        (SERVE, says(Phase.OUTSIDE), (), OPEN),
        (SERVE, says(Phase.OUTSIDE), (HEALTH,), DONE),
        (LEAVE, says(Phase.DRAINING), (HELD,), OPEN),
        (LEAVE, says(Phase.OUTSIDE), (HELD,), DONE),
        (JOIN, says(Phase.OUTSIDE, serve=True), (), OPEN),
        (JOIN, says(Phase.MEMBER, serve=True), (), DONE),
    ],
)
def test_an_operation_ends_by_the_nodes_word_under_its_order(
    kind: OperationKind, said: State | None, standing: tuple[Hold, ...], ends: OperationState
) -> None:
    moved = after(kind, said, *standing)
    assert moved.state is ends
    assert (moved.closed_at is not None, bool(moved.result)) == (ends is DONE, ends is DONE)


def test_a_join_that_a_new_hold_stops_has_failed_and_says_whose_it_is() -> None:
    ended = after(JOIN, says(Phase.OUTSIDE, HEALTH, serve=True), HEALTH)
    assert (ended.state, ended.result) == (FAILED, "held by health: gpu lost")


def test_an_undrain_that_another_hold_outlives_says_whose() -> None:
    assert after(UNDRAIN, says(Phase.OUTSIDE), HEALTH).result == "held by health: gpu lost"


@pytest.mark.parametrize("kind", [kind for kind in OperationKind if kind is not OperationKind.COMMAND])
def test_an_operation_without_an_end_is_given_up_and_says_where_it_stood(kind: OperationKind) -> None:
    assert after(kind, None, wall=TIMEOUT_S[kind]).is_open
    late = after(kind, None, wall=TIMEOUT_S[kind] + 1.0)
    assert late.state is ABANDONED
    assert "has not been heard of" in late.result


@pytest.mark.parametrize(
    ("phase", "wall", "ends"),
    [
        pytest.param(Phase.MEMBER, RAY_SAYS_NO_S, OPEN, id="not yet"),
        pytest.param(Phase.MEMBER, RAY_SAYS_NO_S + 1, FAILED, id="still a member: Ray said no"),
        pytest.param(Phase.DRAINING, RAY_SAYS_NO_S + 1, OPEN, id="it is on its way"),
    ],
)
def test_a_release_that_ray_denies_fails(phase: Phase, wall: float, ends: OperationState) -> None:
    moved = after(RELEASE, says(phase), wall=wall)
    assert moved.state is ends
    assert operations.was_denied(moved) is (ends is FAILED)


def test_a_drain_that_failed_was_not_denied_by_ray() -> None:
    failed = operations.closed(operation(DRAIN), FAILED, "undrained", wall=1.0)
    assert not operations.was_denied(failed)


BUSY = RayNode(id=RayNodeId("r"), name=ONE, status=RayStatus.RUNNING, activity=("a", "b", "c", "d"))


def refusing(term: int, generation: int) -> State:
    said = says(Phase.MEMBER, at=(1, 1))
    return msgspec.structs.replace(
        said, refused=RefusedDesired(why="two_writers", term=term, generation=generation)
    )


@pytest.mark.parametrize(
    ("said", "ray", "text"),
    [
        (None, None, "the node has not been heard of"),
        (says(Phase.MEMBER, at=(2, 2)), None, "waiting for the node to take the order (it is member)"),
        (refusing(2, 3), None, "the node refused the order: two_writers"),
        (refusing(3, 1), None, "the node refused the order: two_writers"),
        (refusing(1, 9), None, "waiting for the node to take the order (it is member)"),
        (says(Phase.MEMBER), BUSY, "member"),
        (says(Phase.DRAINING), None, "draining"),
        (says(Phase.DRAINING), BUSY, "draining: a, b, c"),
        (
            msgspec.structs.replace(says(Phase.DRAINING), witness=Witness(ray_workers=2), reason="fan"),
            BUSY,
            "draining: fan; 2 Ray workers run",
        ),
        (
            msgspec.structs.replace(says(Phase.DRAINING), blockers=("task train x2",), reason="fan"),
            BUSY,
            "draining: fan; still here: task train x2",
        ),
        (
            msgspec.structs.replace(says(Phase.DRAINING), latecomers=("task b",), reason="fan"),
            None,
            "draining: fan; CAME AFTER THE DRAIN: task b",
        ),
        (
            msgspec.structs.replace(says(Phase.OUTSIDE), obstacles=("head_silent",), reason="no answer"),
            None,
            "outside: no answer; obstacles: head_silent",
        ),
    ],
)
def test_a_step_says_where_the_node_stands(said: State | None, ray: RayNode | None, text: str) -> None:
    assert operations.describe(operation(DRAIN), said, ray) == text


def test_the_same_step_is_written_once_and_the_operation_stays_itself() -> None:
    moved = after(DRAIN, says(Phase.DRAINING), HELD)
    assert operations.advance(moved, says(Phase.DRAINING), None, (HELD,), wall=2.0) is moved


def test_steps_are_bounded_and_keep_the_first_and_the_newest() -> None:
    moved = operation(DRAIN)
    for number in range(200):
        said = msgspec.structs.replace(says(Phase.DRAINING), reason=f"turn {number}")
        moved = operations.advance(moved, said, None, (HELD,), wall=float(number))
    assert len(moved.steps) <= 40
    assert (moved.steps[0].text, moved.steps[-1].text) == ("draining: turn 0", "draining: turn 199")


OLD_DRAIN, OLD_RELEASE = operation(DRAIN, op="old"), operation(RELEASE, op="old")


@pytest.mark.parametrize(
    ("new", "old", "makers", "ends"),
    [
        pytest.param(UNDRAIN, OLD_DRAIN, {"old"}, FAILED, id="undrain ends the drain whose hold it lifts"),
        pytest.param(UNDRAIN, OLD_DRAIN, {"other"}, None, id="undrain leaves another drain"),
        pytest.param(DRAIN, OLD_DRAIN, (), None, id="two drains stand beside each other"),
        pytest.param(SERVE, OLD_RELEASE, (), ABANDONED, id="serve overtakes a release"),
        pytest.param(RELEASE, operation(SERVE, op="old"), (), ABANDONED, id="release overtakes a serve"),
        pytest.param(JOIN, operation(LEAVE, op="old"), {"old"}, FAILED, id="join ends the leave it lifts"),
        pytest.param(RELEASE, operation(JOIN, op="old"), (), ABANDONED, id="release overtakes a join"),
        pytest.param(JOIN, OLD_RELEASE, (), ABANDONED, id="join overtakes a release"),
        pytest.param(SERVE, OLD_DRAIN, (), None, id="serve leaves a person's drain"),
        pytest.param(SERVE, operation(RELEASE, op="old", node=TWO), (), None, id="another node's is left"),
        pytest.param(RELEASE, operation(SERVE, op="op-1"), (), None, id="itself is left"),
    ],
)
def test_a_new_operation_ends_those_that_it_undoes(
    new: OperationKind, old: Operation, makers: set[str], ends: OperationState | None
) -> None:
    found = list(operations.superseded(operation(new), [old], makers, wall=1.0))
    assert [o.state for o in found] == ([] if ends is None else [ends])


def test_an_operation_aims_at_the_incarnations_that_were_seen() -> None:
    said = msgspec.structs.replace(state(ONE, epoch=7), ray_node_id=RayNodeId("r"), boot_id="b")
    target = operations.target(said)
    assert dataclasses.astuple(target) == ("r", 7, "b")
    assert dataclasses.astuple(operations.target(None)) == (None, None, "")
