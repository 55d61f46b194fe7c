"""From one node's state to frozen values that others may keep."""

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.members import Member
from gpuherd.gossip.records import Record
from gpuherd.gossip.verdicts import Verdict
from gpuherd.gossip.views import FleetView, MemberView, Voice
from gpuherd.names import NodeName

_SIGHT_S = 30.0
"""A member that was heard within this, or within two full turns of probing, is in sight."""


def view(desk: Desk, now: float) -> FleetView:
    """Return the fleet as ``desk`` has it."""
    expected = desk.electorate.expected
    members = [_own(desk, now)]
    members.extend(
        _member(desk, member, member.record) for member in desk.members if member.record is not None
    )
    known = {member.name for member in members}
    return FleetView(
        own=desk.own.identity.name,
        epoch=desk.epoch,
        role=desk.role,
        expected=len(expected),
        quorum=limits.quorum(len(expected)),
        sight=_sight(desk, now),
        is_hint=len(expected) <= limits.HINT_EXPECTED,
        health=desk.pulse.score,
        members=tuple(sorted(members, key=lambda one: one.name)),
        missing=tuple(sorted(set(desk.electorate.names.values()) - known)),
    )


def _sight(desk: Desk, now: float) -> int:
    expected = desk.electorate.expected
    window_s = max(_SIGHT_S, 2 * len(expected) * limits.PERIOD_S)
    seen = int(desk.hash in expected)
    for member in desk.members:
        if member.hash not in expected or member.heard_at is None:
            continue
        verdict = desk.docket.verdict(member.hash)
        if verdict in (Verdict.ALIVE, Verdict.STALLED) and now - member.heard_at <= window_s:
            seen += 1
    return seen


def _own(desk: Desk, now: float) -> MemberView:
    return MemberView(
        name=desk.own.identity.name,
        address=desk.own.advertised,
        epoch=desk.epoch,
        version=desk.record.version,
        body=desk.body,
        verdict=Verdict.LEFT if desk.has_left else Verdict.ALIVE,
        since=0.0,
        voices=(),
        heard_at=now,
        is_expected=desk.hash in desk.electorate.expected,
        is_observer=desk.own.is_observer,
        has_more=desk.has_more,
    )


def _member(desk: Desk, member: Member, record: Record) -> MemberView:
    docket = desk.docket
    since = docket.since(member.hash)
    return MemberView(
        name=member.identity.name,
        address=record.address,
        epoch=record.epoch,
        version=record.version,
        body=record.body,
        verdict=docket.verdict(member.hash),
        since=member.changed_at if since is None else since,
        voices=tuple(
            Voice(accuser=_name(desk, accuser), kind=kind)
            for accuser, kind in docket.voices(member.hash).items()
        ),
        heard_at=member.heard_at,
        is_expected=member.hash in desk.electorate.expected,
        is_observer=record.is_observer,
        has_more=record.has_more,
    )


def _name(desk: Desk, which: NameHash) -> NodeName | None:
    if which == desk.hash:
        return desk.own.identity.name
    member = desk.members.get(which)
    return None if member is None else member.identity.name
