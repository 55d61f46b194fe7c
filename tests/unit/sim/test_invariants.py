"""Each invariant finds its own breach, and finds none in the nearest sound run."""

from dataclasses import replace

import pytest

from gpuherd.fence import Mark
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import ClusterName, HoldId, NodeName, PoolName
from gpuherd.phases import Phase
from gpuherd.wire.documents import State
from gpuherd_agent.memory import NodeMemory, Orders
from gpuherd_sim.invariants import INVARIANTS, breaches, judge
from gpuherd_sim.journal import Detail, Entry
from gpuherd_sim.record import Ordered, Record, Saved

N1, N2 = NodeName("n1"), NodeName("n2")
POOL = PoolName("gpu")


def _entry(at: float, kind: str, node: str = N1, **detail: Detail) -> Entry:
    return Entry(at=at, kind=kind, node=node, detail=detail)


def _state(phase: Phase) -> State:
    return State(cluster=ClusterName("c"), node=N1, epoch=1, seq=1, sent_at=0.0, phase=phase)


def _saved(*, held: bool = False, wanted: bool = True) -> Saved:
    hold = Hold(id=HoldId("h"), owner="user:ann", kind=HoldKind.DRAIN, reason="mine", since=0.0)
    orders = Orders(
        payload=b"", mark=Mark(term=1, generation=1, digest=""), serve=wanted, pool=POOL, pool_size=2
    )
    return Saved(at=0.0, node=N1, memory=NodeMemory(orders=orders, holds=(hold,) if held else ()))


STARTED = _entry(1, "raylet.started", node_id="a", pid=1, gpus="GPU-n1-0")
ORDERED = _entry(1, "raylet.ordered", node_id="a", gpus="GPU-n1-0")
LOST = _entry(5, "task.lost", task=1, cause="stopped by the agent")
SICK = _entry(4, "fault", what="gpu lost", gpu=0)
RUNNING = _entry(2, "task.started", task=1)
BEGUN = _entry(3, "drain.begun", node_id="a", reason="preemption", message="")
HEAD_KILLED = _entry(1, "fault", "", what="head killed")


def _claim(node: str) -> Entry:
    return _entry(3, "slot.claimed", node, pool=POOL, k=0, n=1)


CASES = [
    pytest.param(
        "no_task_lost_by_us",
        Record(entries=(RUNNING, LOST)),
        Record(entries=(RUNNING, SICK, LOST)),
        id="task",
    ),
    pytest.param(
        "no_task_lost_by_us",
        Record(entries=(RUNNING, LOST)),
        Record(entries=(RUNNING, _entry(4, "node.dead"), LOST)),
        id="task on a node that Ray gave up",
    ),
    pytest.param(
        "budget_is_kept",
        Record(entries=(_claim(N1), _claim(N2)), budgets={POOL: 1}),
        Record(
            entries=(_claim(N1), _entry(4, "slot.released", pool=POOL, k=0), _claim(N2)), budgets={POOL: 1}
        ),
        id="budget",
    ),
    pytest.param(
        "only_the_own_agent_drains",
        Record(entries=(STARTED, _entry(2, "drain.asked", N2, node_id="a", pool=None))),
        Record(entries=(STARTED, _entry(2, "drain.asked", N1, node_id="a", pool=None))),
        id="foreign drain",
    ),
    pytest.param(
        "missing_data_never_shrinks",
        Record(
            entries=(HEAD_KILLED,),
            ordered=(Ordered(at=0, node=N1, serve=True), Ordered(at=9, node=N1, serve=False)),
        ),
        Record(
            entries=(HEAD_KILLED, _entry(2, "fault", "", what="head restarted")),
            ordered=(Ordered(at=0, node=N1, serve=True), Ordered(at=9, node=N1, serve=False)),
        ),
        id="shrink without sight",
    ),
    pytest.param(
        "a_held_node_never_joins",
        Record(entries=(ORDERED,), saved=(_saved(held=True),)),
        Record(entries=(ORDERED,), saved=(_saved(),)),
        id="held",
    ),
    pytest.param(
        "an_unwanted_node_stays_out",
        Record(entries=(ORDERED,), saved=(_saved(wanted=False),)),
        Record(entries=(ORDERED,), saved=(_saved(),)),
        id="unwanted",
    ),
    pytest.param(
        "every_drain_ends",
        Record(entries=(BEGUN,), states={N1: _state(Phase.MEMBER)}),
        Record(entries=(BEGUN,), states={N1: _state(Phase.DRAINING)}),
        id="endless drain",
    ),
    pytest.param(
        "one_raylet_a_node",
        Record(entries=(STARTED, _entry(2, "raylet.started", node_id="b", pid=2))),
        Record(
            entries=(
                STARTED,
                _entry(2, "raylet.gone", node_id="a", pid=1),
                _entry(2, "raylet.started", node_id="b", pid=2),
            )
        ),
        id="two raylets",
    ),
    pytest.param(
        "every_task_finishes",
        Record(submitted=3, unfinished=1),
        Record(submitted=3),
        id="unfinished",
    ),
    pytest.param(
        "sick_gpus_are_not_offered",
        Record(entries=(ORDERED, SICK), states={N1: _state(Phase.MEMBER)}),
        Record(entries=(ORDERED, SICK), states={N1: _state(Phase.OUTSIDE)}),
        id="sick",
    ),
]


@pytest.mark.parametrize(("name", "bad", "good"), CASES)
def test_an_invariant_tells_a_breach_from_its_nearest_sound_run(name: str, bad: Record, good: Record) -> None:
    assert judge(bad)[name].breaches
    assert not judge(good)[name].breaches
    assert judge(good)[name].looked_at > 0


def test_every_invariant_has_a_case() -> None:
    assert {str(case.values[0]) for case in CASES} == {check.__name__ for check in INVARIANTS}


def test_a_breach_carries_the_name_of_its_invariant() -> None:
    record = replace(Record(submitted=2), unfinished=2)
    assert list(breaches(judge(record))) == ["every_task_finishes: 2 of 2 tasks unfinished"]
