"""Taking records in: checked against their owner's key, merged, counted on the docket, passed on."""

from collections import deque

from gpuherd.gossip import limits
from gpuherd.gossip.accuser import Accuser
from gpuherd.gossip.broadcast import News
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.members import Member
from gpuherd.gossip.messages import AnyMessage, Introduce, Spread
from gpuherd.gossip.outputs import EpochTaken, Joined, NameConflict, RecordChanged
from gpuherd.gossip.records import Record, parse, signed_bytes
from gpuherd.gossip.strangers import Strangers, parse_identity

_CONFLICT_S = 5.0
"""Shortest time between two new epochs of ours that a namesake forces."""


class RecordIntake:
    """The one way by which a record gets into the table."""

    def __init__(self, desk: Desk, strangers: Strangers, accuser: Accuser) -> None:
        self._desk = desk
        self._strangers = strangers
        self._accuser = accuser
        self._backlog: deque[AnyMessage] = deque()
        self._defended_at = -1e9

    @property
    def has_backlog(self) -> bool:
        """Whether records of a frame wait for the next call."""
        return bool(self._backlog)

    def defer(self, messages: tuple[AnyMessage, ...]) -> None:
        """Take what a frame brought, in small portions: signatures cost time."""
        room = limits.MAX_BACKLOG - len(self._backlog)
        self._backlog.extend(messages[:room])
        if len(messages) > room:
            self._desk.counters.drop("backlog")

    def work(self, now: float) -> None:
        """Check a portion of what waits."""
        before = self._desk.counters.checks
        while self._backlog and self._desk.counters.checks - before < limits.CHECKS_PER_TURN:
            message = self._backlog.popleft()
            if isinstance(message, Introduce | Spread):
                self.hear(message, now, spreads=False)

    def hear(self, message: Spread | Introduce, now: float, *, spreads: bool = True) -> None:
        """Take a record, or let in whom a member introduces. ``spreads`` = pass it on by gossip."""
        if isinstance(message, Spread):
            self.take(message, now, spreads=spreads)
            return
        identity = parse_identity(message)
        if identity is not None:
            self._strangers.admit(identity, now)

    def take(self, wire: Spread, now: float, *, spreads: bool = True) -> None:
        """Merge a record if it is newer and its owner signed it. ``spreads`` = pass it on by gossip."""
        desk = self._desk
        record = parse(wire)
        if record is None:
            desk.counters.drop("record")
            return
        if record.owner == desk.hash:
            self._meet_own(record, now)
            return
        member = desk.members.get(record.owner)
        if member is None:
            desk.counters.drop("no_identity")
            return
        before = member.record
        if record.rank <= member.rank or desk.members.is_buried(record.owner, record.epoch):
            return
        desk.counters.checks += 1
        if not desk.verifier.verify(
            member.identity.key, wire.signature, signed_bytes(desk.cluster, wire.packed)
        ):
            desk.counters.drop("record_signature")
            return
        desk.members.merge(member, record, now)
        desk.counters.records_in += 1
        if spreads:
            desk.queue.put(record.owner, _news(before, record), introduces=before is None)
        else:
            desk.queue.drop(record.owner)
        self._merged(member, before, record, now)

    def _merged(self, member: Member, before: Record | None, record: Record, now: float) -> None:
        desk = self._desk
        is_new_run = before is None or before.epoch != record.epoch
        changes_votes = (
            before is None or before.has_left != record.has_left or before.is_observer != record.is_observer
        )
        if is_new_run and not record.has_left:
            desk.report(Joined(name=member.identity.name, address=record.address, epoch=record.epoch))
        elif before is not None and (before.body != record.body or before.has_left != record.has_left):
            desk.report(RecordChanged(name=member.identity.name))
        desk.tell(desk.docket.hear(before, record, now))
        if changes_votes and desk.electorate.refresh(desk.members, self._ourselves()):
            desk.tell(desk.docket.judge_all(now))
        if is_new_run or record.has_left:
            self._accuser.subject_changed(record.owner, now)

    def _ourselves(self) -> tuple[NameHash, ...]:
        desk = self._desk
        return () if desk.own.is_observer or desk.has_left else (desk.hash,)

    def refresh_voters(self, now: float) -> None:
        """Work out E again after a change of the roster or of ourselves."""
        if self._desk.electorate.refresh(self._desk.members, self._ourselves()):
            self._desk.tell(self._desk.docket.judge_all(now))

    def _meet_own(self, record: Record, now: float) -> None:
        """Somebody spreads a record of our own name: only a newer one matters: a clash."""
        desk = self._desk
        if record.rank < desk.record.rank or record.wire == desk.record.wire or desk.has_left:
            return
        desk.counters.checks += 1
        if not desk.verifier.verify(
            desk.own.identity.key, record.wire.signature, signed_bytes(desk.cluster, record.wire.packed)
        ):
            return
        if record.address != desk.own.advertised:
            desk.report(NameConflict(name=desk.own.identity.name, address=record.address))
        if now - self._defended_at >= _CONFLICT_S and record.epoch < limits.MAX_EPOCH:
            self._defended_at = now
            desk.take_epoch(record.epoch + 1, now)
            desk.report(EpochTaken(epoch=desk.epoch))


def _news(before: Record | None, after: Record) -> News:
    old = set() if before is None else {one.subject for one in before.accusations}
    new = {one.subject for one in after.accusations}
    if before is not None and before.epoch != after.epoch:
        return News.RETRACTION
    if old - new:
        return News.RETRACTION
    return News.ACCUSATION if new else News.STATE
