"""Who is let in: a challenge for whom we do not know, and the rules for a name that is already taken.

A recording cannot answer a challenge. Of two that speak for one name the one that is online stays, except
that a newer certificate wins (the node was set up anew) and that a run which no longer answers gives way.
"""

from dataclasses import dataclass
from typing import TypeVar

from gpuherd.gossip import addresses, limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.buckets import Bucket
from gpuherd.gossip.cookies import SECRET_BYTES, Cookies
from gpuherd.gossip.desk import Desk, introduce
from gpuherd.gossip.identity import Identity, NameHash, name_hash
from gpuherd.gossip.looks import Look, Looks, Why
from gpuherd.gossip.members import Member
from gpuherd.gossip.messages import AnyMessage, Deaf, Hello, Introduce, Spread, Stale, Taken
from gpuherd.gossip.outputs import NameConflict, Superseded
from gpuherd.gossip.packet import Packet
from gpuherd.gossip.records import parse
from gpuherd.gossip.replay import Window
from gpuherd.gossip.verdicts import Kind, Role
from gpuherd.names import NameInvalid, parse_node

_M = TypeVar("_M")
_ALLOWED_S = 10.0
"""A newcomer whose predecessor did not answer may greet again within this."""
_MAX_CHECKS = 64


@dataclass(frozen=True, slots=True)
class _Check:
    """A look that decides on a greeting: at the run that has the name, or back at the newcomer."""

    source: Address
    newcomer: NameHash
    key: bytes
    is_at_old: bool


class Strangers:
    """The door."""

    def __init__(self, desk: Desk, looks: Looks) -> None:
        self._desk = desk
        self._looks = looks
        self._cookies = Cookies(desk.rng.randbytes(SECRET_BYTES))
        self._challenges = Bucket(rate=limits.CHALLENGES_PER_S, size=limits.CHALLENGES_PER_S)
        self._meetings = Bucket(rate=limits.CHALLENGES_PER_S, size=limits.CHALLENGES_PER_S)
        self._checks: dict[int, _Check] = {}
        self._allowed: dict[tuple[NameHash, bytes], float] = {}
        looks.on_end(Why.NEWCOMER, self._checked)

    def greet(self, address: Address, now: float, echo: bytes = b"", *, with_nonce: bool = True) -> None:
        """Send our identity and a nonce to an address, whoever is there."""
        nonce = self._cookies.bake(address, now) if with_nonce else b""
        desk = self._desk
        messages = (Hello(nonce, echo), introduce(desk.own.identity), desk.record.wire)
        desk.send_raw(address, messages)

    def challenge(self, packet: Packet, source: Address, now: float) -> None:
        """Answer a packet of somebody unknown, before any signature is looked at; at most 50 a second."""
        self._desk.counters.drop("stranger")
        if self._challenges.take(1.0, now):
            hello = _first(packet.messages, Hello)
            self.greet(source, now, echo=b"" if hello is None else hello.nonce)

    def meet(self, packet: Packet, source: Address, now: float, *, is_stream: bool) -> Member | None:
        """Judge a packet of an unknown sender or run; the member it may speak for now, or None.

        A stream proves the address as a good echo does.
        """
        hello = _first(packet.messages, Hello)
        is_proven = is_stream or (hello is not None and self._cookies.redeem(hello.echo, source, now))
        given = _first(packet.messages, Introduce)
        if not is_proven or given is None:
            if not is_stream:
                self.challenge(packet, source, now)
            return None
        identity = parse_identity(given)
        if identity is None or name_hash(identity.name) != packet.sender:
            self._desk.counters.drop("identity")
            return None
        if not self._meetings.take(1.0, now) or not self._is_genuine(packet, identity):
            self._desk.counters.drop("unproven")
            return None
        member = self._rule(packet, identity, source, now)
        if member is not None:
            member.window = Window(epoch=packet.epoch)
            member.window.accept(packet.counter)
            member.heard_at = now
            if hello is not None and hello.nonce:
                self.greet(source, now, echo=hello.nonce, with_nonce=False)
        return member

    def returned(self, hello: Hello, source: Address, now: float) -> None:
        """A known member greets: answer, so that it knows us too."""
        is_answer = bool(hello.echo) and self._cookies.redeem(hello.echo, source, now)
        if hello.nonce and self._challenges.take(1.0, now):
            self.greet(source, now, echo=hello.nonce, with_nonce=not is_answer)

    def admit(self, identity: Identity, now: float) -> Member | None:
        """Let in whom another member introduced, if somebody vouches for it and the name is free."""
        desk = self._desk
        which = name_hash(identity.name)
        if which == desk.hash:
            return None
        member = desk.members.get(which)
        if member is not None and member.identity.key == identity.key:
            return member
        if member is not None and not self._gives_way(member, identity):
            return None
        desk.counters.checks += 1
        if not desk.verifier.vouches(desk.own.cluster, identity):
            desk.counters.drop("not_vouched")
            return None
        if member is not None:
            desk.tell(desk.docket.hear(member.record, None, now))
            desk.members.replace(member, identity, now)
            return member
        return self._add(which, identity, now)

    def check_reach(self, member: Member, source: Address, now: float) -> None:
        """Look back at the address that a newcomer advertises, and tell it when nobody answers there."""
        if len(self._checks) >= _MAX_CHECKS:
            return
        look = self._looks.begin(member.hash, Why.NEWCOMER, now)
        if look is not None:
            check = _Check(source, member.hash, member.identity.key, is_at_old=False)
            self._checks[look.sequence] = check

    def _add(self, which: NameHash, identity: Identity, now: float) -> Member | None:
        desk = self._desk
        listed = len(desk.electorate.names) if desk.electorate.has_roster else 0
        is_listed = which in desk.electorate.names
        if not is_listed and len(desk.members) >= limits.MAX_MEMBERS - listed:
            desk.counters.drop("full")
            return None
        member = desk.members.admit(which, identity, now)
        if member is None:
            desk.counters.drop("full")
        return member

    def _is_genuine(self, packet: Packet, identity: Identity) -> bool:
        verifier, counters = self._desk.verifier, self._desk.counters
        counters.checks += 2
        return verifier.verify(identity.key, packet.signature, packet.signed) and verifier.vouches(
            self._desk.own.cluster, identity
        )

    def _rule(self, packet: Packet, identity: Identity, source: Address, now: float) -> Member | None:
        desk = self._desk
        if packet.sender == desk.hash:
            self._meet_namesake(packet, identity, source)
            return None
        member = desk.members.get(packet.sender)
        if member is None:
            return self._add(packet.sender, identity, now)
        record, address = member.record, _advertised(packet)
        is_same_place = record is None or member.has_left or address == record.address
        if member.identity.key == identity.key:
            if record is not None and packet.epoch < record.epoch:
                desk.send_raw(source, (record.wire,))
                return None
            if record is not None and packet.epoch == record.epoch:
                if member.window is None or member.window.is_fresh(packet.counter):
                    return member
                desk.send_raw(source, (Stale(packet.epoch),))
                return None
            if is_same_place or desk.docket.is_held(member.hash) or self._is_allowed(member, identity, now):
                return member
            return self._check_old(member, identity, source, now)
        if is_same_place or self._gives_way(member, identity) or self._is_allowed(member, identity, now):
            desk.tell(desk.docket.hear(record, None, now))
            desk.members.replace(member, identity, now)
            return member
        return self._check_old(member, identity, source, now)

    def _gives_way(self, member: Member, identity: Identity) -> bool:
        return (
            identity.issued_at_s > member.identity.issued_at_s
            or member.has_left
            or (member.record is None and identity.issued_at_s == member.identity.issued_at_s)
            or self._desk.docket.is_held(member.hash)
        )

    def _is_allowed(self, member: Member, identity: Identity, now: float) -> bool:
        return self._allowed.pop((member.hash, identity.key), -1.0) >= now

    def _check_old(self, member: Member, identity: Identity, source: Address, now: float) -> Member | None:
        if len(self._checks) < _MAX_CHECKS:
            look = self._looks.begin(member.hash, Why.NEWCOMER, now)
            if look is not None:
                self._checks[look.sequence] = _Check(source, member.hash, identity.key, is_at_old=True)
        return None

    def _checked(self, look: Look, kind: Kind | None, now: float) -> None:
        check = self._checks.pop(look.sequence, None)
        member = self._desk.members.get(look.subject)
        if check is None or member is None or member.record is None:
            return
        packed = addresses.pack(member.record.address)
        if check.is_at_old and kind is None:
            self._desk.send_raw(check.source, (Taken(packed),))
            self._desk.report(NameConflict(name=member.identity.name, address=check.source))
        elif check.is_at_old and not self._desk.pulse.is_late(now):
            self._allowed = {key: until for key, until in self._allowed.items() if until >= now}
            self._allowed[check.newcomer, check.key] = now + _ALLOWED_S
        elif not check.is_at_old and kind is not None and not self._desk.pulse.is_late(now):
            self._desk.send_raw(check.source, (Deaf(packed),))

    def _meet_namesake(self, packet: Packet, identity: Identity, source: Address) -> None:
        """Somebody speaks for our own name: ourselves by way of a seed list, a clone, or our successor."""
        desk = self._desk
        address = _advertised(packet)
        if address == desk.own.advertised and identity.key == desk.own.identity.key:
            return
        if identity.issued_at_s > desk.own.identity.issued_at_s:
            desk.role = Role.RETIRED
            desk.has_left = True
            desk.report(Superseded(address=source))
            return
        desk.send_raw(source, (Taken(addresses.pack(desk.own.advertised)),))
        desk.report(NameConflict(name=desk.own.identity.name, address=source))


def parse_identity(given: Introduce) -> Identity | None:
    """Return the identity in a message, or None when its name is outside the grammar."""
    try:
        name = parse_node(given.name)
    except NameInvalid:
        return None
    return Identity(name=name, key=given.key, issued_at_s=given.issued_at_s, ca_signature=given.ca_signature)


def _advertised(packet: Packet) -> Address | None:
    for message in packet.messages:
        if isinstance(message, Spread):
            record = parse(message)
            if record is not None and record.owner == packet.sender:
                return record.address
    return None


def _first(messages: tuple[AnyMessage, ...], kind: type[_M]) -> _M | None:
    return next((one for one in messages if isinstance(one, kind)), None)
