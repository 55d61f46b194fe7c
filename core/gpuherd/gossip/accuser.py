"""Our own accusations: entered after a roll call, taken back only by our own look answered in time."""

from collections.abc import Callable
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.broadcast import News
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.looks import Look, Looks, Why
from gpuherd.gossip.records import Accusation, epoch_low
from gpuherd.gossip.rolls import Rolls
from gpuherd.gossip.verdicts import Kind

_HEARD_GRACE_S = 0.05
"""Who heard nobody since its look began waits this long before it gives the accusation up."""

Entered = Callable[[float], None]


@dataclass(slots=True)
class _Repeat:
    """Equal results of the looks since the accusation, for a change of its kind."""

    kind: Kind
    count: int = 1


class Accuser:
    """Keeps ``desk.accusations`` true."""

    def __init__(self, desk: Desk, looks: Looks, rolls: Rolls) -> None:
        self._desk = desk
        self._looks = looks
        self._rolls = rolls
        self._repeats: dict[NameHash, _Repeat] = {}
        looks.on_end(Why.REPROBE, self._reprobed)

    def accuse(self, look: Look, kind: Kind, now: float, entered: Entered | None = None) -> None:
        """Accuse the subject of a look that found no answer, if we are fit to; then call ``entered``."""
        pulse = self._desk.pulse
        if pulse.is_late(now):
            return
        if pulse.heard_at < look.began_at:
            self._desk.timers.at(
                now + _HEARD_GRACE_S, lambda at: self._accuse_if_heard(look, kind, at, entered)
            )
            return
        self._rolls.need(lambda at: self._enter(look.subject, kind, at, entered), now)

    def _accuse_if_heard(self, look: Look, kind: Kind, now: float, entered: Entered | None) -> None:
        if self._desk.pulse.heard_at >= look.began_at and not self._desk.pulse.is_late(now):
            self._rolls.need(lambda at: self._enter(look.subject, kind, at, entered), now)

    def withdraw(self, subject: NameHash, now: float) -> None:
        """Take an accusation back."""
        if self._desk.accusations.pop(subject, None) is not None:
            self._repeats.pop(subject, None)
            self._desk.has_more = False
            self._desk.counters.retractions += 1
            self._desk.renew_record(News.RETRACTION, now)

    def subject_changed(self, subject: NameHash, now: float) -> None:
        """Drop an accusation that means a former run, or a member that has left."""
        mine = self._desk.accusations.get(subject)
        member = self._desk.members.get(subject)
        if mine is None:
            return
        if (
            member is None
            or member.record is None
            or member.has_left
            or epoch_low(member.record.epoch) != mine.epoch_low
        ):
            self.withdraw(subject, now)

    def _enter(self, subject: NameHash, kind: Kind, now: float, entered: Entered | None) -> None:
        desk = self._desk
        member = desk.members.get(subject)
        if member is None or member.record is None or member.has_left or not desk.is_voter:
            return
        if subject not in desk.accusations:
            if len(desk.accusations) >= limits.MAX_ACCUSATIONS and not self._give_place():
                if not desk.has_more:
                    desk.has_more = True
                    desk.renew_record(News.ACCUSATION, now)
                return
            desk.accusations[subject] = Accusation(
                subject=subject, epoch_low=epoch_low(member.record.epoch), kind=kind
            )
            repeat = self._repeats[subject] = _Repeat(kind)
            desk.counters.accusations += 1
            desk.renew_record(News.ACCUSATION, now)
            desk.timers.at(now + limits.REPROBE_S, lambda at: self._reprobe(subject, repeat, at))
        if entered is not None:
            entered(now)

    def _give_place(self) -> bool:
        """Free the place of the subject that most others accuse too, more than Q of them."""
        desk = self._desk
        needed = limits.quorum(len(desk.electorate.expected))
        spare = [(len(desk.docket.voices(one)), one) for one in desk.accusations]
        most = max(spare, default=(0, desk.hash))
        if most[0] <= needed:
            return False
        del desk.accusations[most[1]]
        self._repeats.pop(most[1], None)
        desk.has_more = True
        return True

    def _reprobe(self, subject: NameHash, repeat: _Repeat, now: float) -> None:
        if self._repeats.get(subject) is not repeat or subject not in self._desk.accusations:
            return
        if self._desk.has_left:
            return
        self._looks.begin(subject, Why.REPROBE, now)
        again = now + limits.REPROBE_S
        self._desk.timers.at(again, lambda at: self._reprobe(subject, repeat, at))

    def _reprobed(self, look: Look, kind: Kind | None, now: float) -> None:
        desk = self._desk
        mine = desk.accusations.get(look.subject)
        if mine is None:
            return
        if kind is None:
            self.withdraw(look.subject, now)
            return
        if desk.pulse.is_late(now) or desk.pulse.heard_at < look.began_at:
            return
        repeat = self._repeats[look.subject]
        if repeat.kind is not kind:
            repeat.kind, repeat.count = kind, 1
            return
        repeat.count += 1
        if kind is not mine.kind and repeat.count >= limits.EQUAL_RESULTS:
            desk.accusations[look.subject] = Accusation(
                subject=look.subject, epoch_low=mine.epoch_low, kind=kind
            )
            desk.renew_record(News.ACCUSATION, now)
