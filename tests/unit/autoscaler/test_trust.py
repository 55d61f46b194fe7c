"""Answers in time that contradict what else is known."""

import pytest
from tests.kit.fleets import Scaler, gpus, picture, serving, standby

from gpuherd_autoscaler.snapshot import Freshness, NodeView
from gpuherd_autoscaler.trust import of_clock, of_cluster


def claims(name: str, *, listed: bool) -> NodeView:
    """Return a node whose agent says that it is in Ray."""
    return serving(name) if listed else serving(name, ray=None)


@pytest.mark.parametrize(
    ("listed", "unlisted", "is_suspect"),
    [
        pytest.param(0, 3, True, id="none of three"),
        pytest.param(1, 2, True, id="one of three"),
        pytest.param(2, 2, False, id="half is not most"),
        pytest.param(0, 2, False, id="two witnesses are too few"),
        pytest.param(10, 1, False, id="one that just left"),
    ],
)
def test_a_head_that_does_not_list_most_of_its_nodes_is_suspect(
    listed: int, unlisted: int, is_suspect: bool
) -> None:
    nodes = [claims(f"n-{i}", listed=True) for i in range(listed)]
    nodes += [claims(f"m-{i}", listed=False) for i in range(unlisted)]
    snapshot = picture(nodes)
    judged = of_cluster(snapshot.cluster, snapshot.nodes, 30.0)
    assert (judged.freshness is Freshness.SUSPECT) is is_suspect
    assert (judged.fresh is None) is is_suspect


@pytest.mark.parametrize("old", [standby("x"), serving("x", ray=None, age_s=99.0)])
def test_nodes_outside_and_old_documents_bear_no_witness(old: NodeView) -> None:
    nodes = [old, *(serving(f"m-{i}", ray=None, age_s=99.0) for i in range(4))]
    snapshot = picture(nodes)
    assert of_cluster(snapshot.cluster, snapshot.nodes, 30.0) is snapshot.cluster


def test_while_the_head_is_suspect_nothing_is_released() -> None:
    scaler = Scaler()
    nodes = [serving("n-1"), serving("n-2"), standby("n-3")]
    plan = scaler.look_for(2_000, nodes, freshness=Freshness.SUSPECT)
    assert plan.is_silent
    assert plan.frozen
    assert scaler.look(nodes, [gpus(8)], freshness=Freshness.SUSPECT).is_silent


def test_a_clock_that_was_set_is_not_trusted_for_a_minute() -> None:
    assert of_clock(100.0, None, None, 0.0) is None
    assert of_clock(100.9, 100.0, None, 5.0) is None
    assert of_clock(3_700.0, 100.0, None, 10.0) == 10.0
    assert of_clock(3_700.0, 3_700.0, 10.0, 69.0) == 10.0
    assert of_clock(3_700.0, 3_700.0, 10.0, 70.0) is None
    assert of_clock(100.0, 3_700.0, 10.0, 50.0) == 50.0
