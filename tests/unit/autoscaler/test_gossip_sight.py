"""The gossip as a source: what it holds, and how long it is worth anything."""

import pytest

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd.gossip.views import FleetView, MemberView
from gpuherd.names import NodeName
from gpuherd_autoscaler import snapshot
from gpuherd_autoscaler.gossip_sight import judged
from gpuherd_autoscaler.snapshot import Freshness, Snapshot

OWN = NodeName("scaler-1")


def member(name: str, heard_at: float | None, verdict: Verdict, *, is_expected: bool = True) -> MemberView:
    return MemberView(
        name=NodeName(name),
        address=Address("10.0.0.1", 1),
        epoch=1,
        version=1,
        body=Body(),
        verdict=verdict,
        since=0.0,
        voices=(),
        heard_at=heard_at,
        is_expected=is_expected,
        is_observer=not is_expected,
        has_more=False,
    )


def view(*members: MemberView) -> FleetView:
    return FleetView(
        own=OWN,
        epoch=1,
        role=Role.OBSERVER,
        expected=3,
        quorum=2,
        sight=1,
        is_hint=True,
        health=0,
        members=(member(OWN, 100.0, Verdict.ALIVE, is_expected=False), *members),
        missing=(NodeName("n3"),),
    )


@pytest.mark.parametrize(
    ("heard_at", "now", "freshness"),
    [
        pytest.param(95.0, 100.0, Freshness.FRESH, id="heard"),
        pytest.param(60.0, 100.0, Freshness.STALE, id="not heard for 40 s"),
        pytest.param(None, 100.0, Freshness.FAILED, id="never heard: our own word counts nothing"),
    ],
)
def test_it_is_fresh_while_some_member_is_heard(
    heard_at: float | None, now: float, freshness: Freshness
) -> None:
    assert judged(view(member("n1", heard_at, Verdict.ALIVE)), now).freshness is freshness


def test_it_holds_the_verdicts_of_expected_members_alone() -> None:
    found = judged(view(member("n1", 99.0, Verdict.ALIVE), member("n2", 9.0, Verdict.UNREACHABLE)), 100.0)
    assert found.value is not None
    assert found.value.verdicts == {"n1": "alive", "n2": "unreachable"}
    assert (found.value.expected, found.value.sight, found.value.missing) == (3, 1, ("n3",))


def test_a_snapshot_recorded_before_gossip_is_still_read() -> None:
    old = snapshot.decode(b'{"at": 1.0, "cluster": {"freshness": "failed"}, "nodes": {}, "uninvited": []}')
    assert old == Snapshot(at=1.0)


def test_the_gossip_survives_recording() -> None:
    made = Snapshot(at=1.0, gossip=judged(view(member("n1", 99.0, Verdict.STALLED)), 100.0))
    assert snapshot.decode(snapshot.encode(made)) == made
