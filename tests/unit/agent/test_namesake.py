"""Two agents with one name: the newcomer finds out first."""

from tests.kit.node import CLUSTER, NODE

from gpuherd.wire.documents import Online
from gpuherd_agent.namesake import ANSWER_S, LOOK_S, Namesake, Standing, connected, heard, passed

NEW = Namesake(host="host-b")


def online(host: str, *, is_online: bool = True) -> Online:
    return Online(cluster=CLUSTER, node=NODE, epoch=1, conn=1, online=is_online, host=host)


def test_without_a_broker_nothing_is_known() -> None:
    assert passed(NEW, 1e9).standing is Standing.AWAY


def test_a_name_that_nobody_claims_is_settled_after_the_look() -> None:
    known = connected(NEW, 10.0)
    assert passed(known, 10.0 + LOOK_S / 2).standing is Standing.LOOKING
    assert passed(known, 10.0 + LOOK_S).standing is Standing.SETTLED


def test_our_own_earlier_run_is_no_namesake() -> None:
    known = heard(connected(NEW, 10.0), online("host-b"), retained=True)
    assert passed(known, 20.0).standing is Standing.SETTLED


def test_a_last_will_is_no_namesake() -> None:
    known = heard(connected(NEW, 10.0), online("host-a", is_online=False), retained=True)
    assert passed(known, 20.0).standing is Standing.SETTLED


def test_a_claimed_name_is_asked_for_and_an_answer_takes_it() -> None:
    known = heard(connected(NEW, 10.0), online("host-a"), retained=True)
    known = passed(known, 10.0 + LOOK_S)
    assert known.standing is Standing.ASKING
    known = heard(known, online("host-a"), retained=False)
    assert (known.standing, known.other) == (Standing.TAKEN, "host-a")


def test_a_claim_that_nobody_answers_for_is_an_old_one() -> None:
    known = passed(heard(connected(NEW, 10.0), online("host-a"), retained=True), 11.0)
    assert passed(known, 11.0 + ANSWER_S).standing is Standing.SETTLED


def test_a_settled_name_is_not_given_up() -> None:
    known = passed(connected(NEW, 10.0), 20.0)
    assert heard(known, online("host-a"), retained=False).standing is Standing.SETTLED


def test_a_claim_that_comes_before_the_look_begins_counts() -> None:
    known = connected(heard(NEW, online("host-a"), retained=True), 10.0)
    assert passed(known, 11.0).standing is Standing.ASKING
