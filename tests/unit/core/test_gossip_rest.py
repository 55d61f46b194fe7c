"""What a quorum of nodes says of broker, head and versions."""

import pytest
from tests.kit.views import fleet, member

from gpuherd.gossip.bodies import Body, Reach
from gpuherd.gossip.verdicts import Verdict
from gpuherd.gossip.views import MemberView
from gpuherd.gossip_rest import seen

LOST, REACHED = Body(broker=Reach.LOST, head=Reach.LOST), Body(broker=Reach.REACHED, head=Reach.REACHED)


@pytest.mark.parametrize(
    ("members", "is_down"),
    [
        pytest.param([member(i, LOST) for i in range(3)], True, id="a quorum has lost it"),
        pytest.param([member(0, LOST), member(1, LOST), member(2, REACHED)], False, id="two of them"),
        pytest.param(
            [member(i, LOST) for i in range(3)] + [member(i, REACHED) for i in range(3, 7)],
            False,
            id="most still reach it: paths, no outage",
        ),
        pytest.param([member(i, LOST, Verdict.FAILED) for i in range(3)], False, id="the dead have no voice"),
        pytest.param([member(i, LOST, is_expected=False) for i in range(3)], False, id="strangers neither"),
    ],
)
def test_broker_and_head_are_down_by_a_quorum_alone(members: list[MemberView], is_down: bool) -> None:
    found = seen(fleet(*members), now=10.0)
    assert (found.broker_down, found.head_down) == (is_down, is_down)


def test_the_node_whose_versions_differ_from_the_majority_is_shown() -> None:
    common, odd = Body(versions_hash=b"a" * 8), Body(versions_hash=b"b" * 8)
    found = seen(fleet(member(0, common), member(1, common), member(2, odd)), now=10.0)
    assert [node.drifts for node in found.nodes] == [False, False, True]


def test_without_a_majority_nobody_drifts() -> None:
    bodies = (Body(versions_hash=b"a" * 8), Body(versions_hash=b"b" * 8))
    found = seen(fleet(*(member(i, body) for i, body in enumerate(bodies))), now=10.0)
    assert not any(node.drifts for node in found.nodes)
