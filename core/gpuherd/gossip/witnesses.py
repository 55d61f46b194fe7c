"""Asking eight others to look before a silent member is accused, and looking when asked."""

from dataclasses import dataclass, field

from gpuherd.gossip import limits
from gpuherd.gossip.accuser import Accuser
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.looks import Look, Looks, Why
from gpuherd.gossip.members import Member
from gpuherd.gossip.messages import Ask, Fine, Heed, Stop
from gpuherd.gossip.outputs import PathFailed
from gpuherd.gossip.verdicts import Kind


@dataclass(slots=True)
class _Inquiry:
    """What we asked of others about one member."""

    look: Look
    kind: Kind
    asked: dict[NameHash, None] = field(default_factory=dict)
    heeded: set[NameHash] = field(default_factory=set)
    is_fine: bool = False
    walks: int = 0


@dataclass(slots=True)
class _Duty:
    """A look that others asked us for."""

    look: Look
    askers: dict[NameHash, None]


class Witnesses:
    """Both sides of the inquiry: prober and witness."""

    def __init__(self, desk: Desk, looks: Looks, accuser: Accuser) -> None:
        self._desk = desk
        self._looks = looks
        self._accuser = accuser
        self._inquiries: dict[NameHash, _Inquiry] = {}
        self._duties: dict[NameHash, _Duty] = {}
        looks.on_end(Why.WITNESS, self._looked)

    # The prober.

    def inquire(self, look: Look, kind: Kind, now: float) -> None:
        """Ask the witnesses of a member that did not answer us; accuse it when none of them reaches it."""
        if look.subject in self._inquiries:
            return
        inquiry = _Inquiry(look=look, kind=kind)
        self._inquiries[look.subject] = inquiry
        self._walk(inquiry, now)
        if kind is Kind.REFUSED:
            self._accuser.accuse(look, kind, now)
        ends_at = now + limits.WITNESS_LOOK_S
        self._desk.timers.at(ends_at, lambda at: self._conclude(inquiry, at))

    def _walk(self, inquiry: _Inquiry, now: float) -> None:
        desk, subject = self._desk, inquiry.look.subject
        if self._inquiries.get(subject) is not inquiry or inquiry.is_fine or desk.docket.is_held(subject):
            return
        missing = limits.WITNESSES - len(inquiry.heeded)
        for which in desk.electorate.witnesses(subject):
            if missing <= 0:
                break
            member = desk.members.get(which)
            if which == desk.hash or which in inquiry.asked or member is None or member.record is None:
                continue
            if desk.docket.is_held(which) or desk.docket.has_voices(which):
                continue
            inquiry.asked[which] = None
            missing -= 1
            desk.send(member, Ask(subject))
        inquiry.walks += 1
        if inquiry.walks < limits.MAX_WALKS:
            desk.timers.at(now + limits.HEED_S, lambda at: self._walk(inquiry, at))

    def heeded(self, subject: NameHash, witness: NameHash) -> None:
        """A witness says that it looks."""
        inquiry = self._inquiries.get(subject)
        if inquiry is not None and witness in inquiry.asked:
            inquiry.heeded.add(witness)

    def found_fine(self, subject: NameHash, witness: NameHash) -> None:
        """A witness reached the member: the others may stop."""
        inquiry = self._inquiries.get(subject)
        if inquiry is None or inquiry.is_fine or witness not in inquiry.asked:
            return
        inquiry.is_fine = True
        for which in inquiry.asked:
            member = self._desk.members.get(which)
            if which != witness and member is not None:
                self._desk.send(member, Stop(subject))
        member = self._desk.members.get(subject)
        if member is not None and member.record is not None:
            self._desk.report(PathFailed(name=member.identity.name, address=member.record.address))

    def _conclude(self, inquiry: _Inquiry, now: float) -> None:
        self._inquiries.pop(inquiry.look.subject, None)
        if inquiry.is_fine or self._desk.pulse.is_late(now):
            return
        if 2 * len(inquiry.heeded) < min(len(inquiry.asked), limits.WITNESSES):
            self._desk.pulse.worsen()
        if inquiry.kind is not Kind.REFUSED:
            self._accuser.accuse(inquiry.look, inquiry.kind, now)

    # The witness.

    def asked(self, subject: NameHash, asker: Member, now: float) -> None:
        """Look at ``subject`` for ``asker``, or answer with our record when we accuse it already."""
        desk = self._desk
        if subject == desk.hash or not desk.is_voter or asker.hash not in desk.electorate.expected:
            return
        if subject in desk.accusations:
            desk.send(asker, desk.record.wire, Heed(subject))
            return
        duty = self._duties.get(subject)
        if duty is not None:
            if len(duty.askers) < limits.WITNESSES:
                duty.askers[asker.hash] = None
            desk.send(asker, Heed(subject))
            return
        if subject not in desk.electorate.expected or len(self._duties) >= limits.ROLL_ALL:
            return
        look = self._looks.begin(subject, Why.WITNESS, now)
        if look is not None:
            self._duties[subject] = _Duty(look, {asker.hash: None})
            desk.send(asker, Heed(subject))

    def stopped(self, subject: NameHash, asker: NameHash) -> None:
        """Somebody reached the member; look no further for this asker; others may still wait."""
        duty = self._duties.get(subject)
        if duty is not None and asker in duty.askers:
            del duty.askers[asker]
            if not duty.askers:
                del self._duties[subject]
                self._looks.cancel(duty.look)

    def _looked(self, look: Look, kind: Kind | None, now: float) -> None:
        duty = self._duties.pop(look.subject, None)
        if duty is None or self._desk.pulse.is_late(now):
            return
        if kind is None:
            for asker in duty.askers:
                member = self._desk.members.get(asker)
                if member is not None:
                    self._desk.send(member, Fine(look.subject))
            return
        self._accuser.accuse(look, kind, now, lambda _: self._reply(duty))

    def _reply(self, duty: _Duty) -> None:
        for asker in duty.askers:
            member = self._desk.members.get(asker)
            if member is not None:
                self._desk.send(member, self._desk.record.wire)
