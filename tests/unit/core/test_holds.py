"""Holds: the union of what stands, and who may lift what."""

import pytest

from gpuherd.holds import (
    HEALTH,
    REPAIR,
    SCALER,
    UPGRADE,
    Hold,
    HoldKind,
    is_planned,
    parse_owner,
    refuse_lift,
    union,
    user,
)
from gpuherd.names import HoldId, NameInvalid


def hold(name: str, kind: HoldKind = HoldKind.DRAIN, owner: str = "user:ann", since: float = 0.0) -> Hold:
    return Hold(id=HoldId(name), owner=owner, kind=kind, reason=name, since=since)


def test_the_strongest_hold_comes_first() -> None:
    held = union([hold("a", HoldKind.CORDON), hold("b", HoldKind.EVICT)], [hold("c", HoldKind.DRAIN)])
    assert [h.id for h in held] == ["b", "c", "a"]


def test_a_lifted_id_does_not_come_back() -> None:
    assert union([hold("a")], [hold("a"), hold("b")], lifted={HoldId("a")}) == (hold("b"),)


def test_a_document_cannot_weaken_a_stored_hold_of_the_same_id() -> None:
    assert union([hold("a", HoldKind.EVICT)], [hold("a", HoldKind.CORDON)]) == (hold("a", HoldKind.EVICT),)


@pytest.mark.parametrize(
    ("owner", "by", "may"),
    [
        pytest.param("user:ann", "user:ann", True, id="own"),
        pytest.param("user:ann", "user:bob", True, id="another person's"),
        pytest.param(SCALER, "user:ann", True, id="a person over the scaler"),
        pytest.param(HEALTH, "user:ann", False, id="health ends with its finding"),
        pytest.param("user:ann", SCALER, False, id="the scaler over a person"),
        pytest.param(HEALTH, SCALER, False, id="the scaler over health"),
        pytest.param(HEALTH, HEALTH, True, id="health's own"),
    ],
)
def test_who_may_lift_a_hold(owner: str, by: str, may: bool) -> None:
    assert (refuse_lift(hold("a", owner=owner), by) is None) is may


@pytest.mark.parametrize("text", ["", "root", "user:", "user:A", "user:a b", "healthy"])
def test_an_unknown_owner_is_refused(text: str) -> None:
    with pytest.raises(NameInvalid):
        parse_owner(text)


@pytest.mark.parametrize(
    ("name", "owner"),
    [("Ann", "user:ann"), ("user:ann", "user:ann"), ("a.b", "user:a-b"), ("--", "user:unknown")],
)
def test_any_login_name_makes_an_owner(name: str, owner: str) -> None:
    assert parse_owner(user(name)) == owner


@pytest.mark.parametrize(
    ("owner", "kind", "planned"),
    [
        pytest.param("user:ann", HoldKind.DRAIN, True, id="a person's drain"),
        pytest.param(UPGRADE, HoldKind.EVICT, True, id="an upgrade"),
        pytest.param(REPAIR, HoldKind.DRAIN, True, id="a repair"),
        pytest.param("user:ann", HoldKind.CORDON, False, id="a cordoned node works on"),
        pytest.param(HEALTH, HoldKind.EVICT, False, id="a finding is no plan"),
        pytest.param(SCALER, HoldKind.DRAIN, False, id="scale-down ends nothing but Ray"),
    ],
)
def test_planned_work_is_what_a_node_is_drained_for(owner: str, kind: HoldKind, planned: bool) -> None:
    assert is_planned(hold("a", kind, owner)) is planned
