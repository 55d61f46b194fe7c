"""What a node says of itself by gossip."""

from tests.kit.views import fleet, member

from gpuherd.gossip.bodies import Body, NodeState, Reach
from gpuherd.gossip.counters import Counters
from gpuherd.gossip.verdicts import Verdict as Opinion
from gpuherd.health import Action, Finding, Severity, Verdict
from gpuherd.phases import Phase
from gpuherd_agent.gossip_record import GossipFacts, OwnState, body, samples


def own(**changes: object) -> OwnState:
    state = {
        "verdict": Verdict(),
        "phase": Phase.MEMBER,
        "gpus_declared": 8,
        "gpus_present": 8,
        "head_reachable": True,
        "broker_connected": True,
        "versions": ("agent 1", "driver 2"),
    }
    return OwnState(**{**state, **changes})  # type: ignore[arg-type]  # by field


def finding(rule: str, reason: str) -> Finding:
    return Finding(rule=rule, severity=Severity.CRITICAL, action=Action.DRAIN, reason=reason)


def test_a_measurement_inside_a_reason_does_not_change_the_record() -> None:
    hot, hotter = (
        Verdict(severity=Severity.CRITICAL, action=Action.DRAIN, findings=(finding("hot", text),))
        for text in ("91 degrees", "92 degrees")
    )
    assert body(own(verdict=hot)) == body(own(verdict=hotter))
    assert body(own(verdict=hot)).state is NodeState.CRITICAL
    assert body(own(verdict=hot)).reason_bits != 0


def test_what_is_not_known_of_the_head_is_neither_reached_nor_lost() -> None:
    assert body(own(head_reachable=None)).head is Reach.UNKNOWN
    assert body(own(head_reachable=False)).head is Reach.LOST


def test_another_driver_shows_in_the_versions() -> None:
    assert body(own()).versions_hash != body(own(versions=("agent 1", "driver 3"))).versions_hash


def test_planned_work_is_announced_and_counted_apart_once_the_node_is_gone() -> None:
    assert body(own(in_maintenance=True)).in_maintenance
    planned = Body(in_maintenance=True)
    view = fleet(
        member(0, Body()),
        member(1, planned),
        member(2, planned, Opinion.FAILED),
        member(3, planned, Opinion.AGENT_DEAD),
        member(4, Body(), Opinion.FAILED),
        member(5, planned, Opinion.STALLED),
    )
    facts = GossipFacts(
        view=view, counters=Counters(), lag_s=0.0, mismatches=0, conflicts=0, paths_failed=0, streams_shed=0
    )
    (planned_gone,) = (s.value for s in samples(facts) if s.name == "gpuherd_gossip_gone_as_planned")
    assert planned_gone == 2
