"""One node's part in the gossip: every input goes in here, every output comes out.

No clock, no socket, no chance of its own: equal inputs give equal outputs.
"""

import random

from gpuherd.gossip import addresses, limits
from gpuherd.gossip.accuser import Accuser
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.broadcast import News
from gpuherd.gossip.contact import Contact
from gpuherd.gossip.counters import Counters
from gpuherd.gossip.desk import Desk, Self, introduce
from gpuherd.gossip.identity import Identity, NameHash, Signer, Verifier
from gpuherd.gossip.inputs import (
    CallEnd,
    CallResult,
    Datagram,
    Input,
    Join,
    Leave,
    Publish,
    Recall,
    Request,
    SetRoster,
    SocketError,
    Tick,
)
from gpuherd.gossip.intake import Heard, Intake
from gpuherd.gossip.looks import Looks
from gpuherd.gossip.members import Member
from gpuherd.gossip.messages import (
    Ack,
    AnyMessage,
    Ask,
    Deaf,
    Differ,
    Fine,
    Heed,
    Hello,
    Introduce,
    Ping,
    Spread,
    Stale,
    Stop,
    Taken,
)
from gpuherd.gossip.outputs import EpochTaken, Output
from gpuherd.gossip.reconciler import Reconciler
from gpuherd.gossip.record_intake import RecordIntake
from gpuherd.gossip.rolls import Rolls
from gpuherd.gossip.rounds import Rounds
from gpuherd.gossip.spreader import Spreader
from gpuherd.gossip.standing import Standing
from gpuherd.gossip.strangers import Strangers
from gpuherd.gossip.view import view
from gpuherd.gossip.views import FleetView
from gpuherd.gossip.witnesses import Witnesses

__all__ = ["Gossip", "Self"]


class Gossip:
    """The state of one member. Not thread-safe; the shell feeds it from one loop.

    Before a ``Tick`` the shell hands over every packet that waits. One call checks one packet's signature and
    at most CHECKS_PER_TURN of records.
    """

    def __init__(self, own: Self, signer: Signer, verifier: Verifier, rng: random.Random) -> None:
        self._desk = desk = Desk(own=own, signer=signer, verifier=verifier, rng=rng)
        self._looks = Looks(desk)
        self._strangers = Strangers(desk, self._looks)
        self._intake = Intake(desk, self._strangers)
        self._standing = Standing(desk)
        self._rolls = Rolls(desk, self._looks, self._standing.refresh)
        self._standing.rolls = self._rolls
        self._accuser = Accuser(desk, self._looks, self._rolls)
        self._witnesses = Witnesses(desk, self._looks, self._accuser)
        self._rounds = Rounds(desk, self._looks, self._witnesses, self._rolls)
        self._records = RecordIntake(desk, self._strangers, self._accuser)
        self._reconciler = Reconciler(desk)
        self._spreader = Spreader(desk, self._reconciler.exchange)
        self._contact = Contact(desk, self._strangers)
        self._has_started = False

    @property
    def deadline(self) -> float:
        """When ``handle`` wants a ``Tick``; changes with every input. Infinite before the first input."""
        return 0.0 if self._records.has_backlog else self._desk.timers.deadline

    @property
    def counters(self) -> Counters:
        """What this node has sent, received, dropped and checked."""
        return self._desk.counters

    @property
    def own_record(self) -> Spread:
        """Our own record as it is signed now."""
        return self._desk.record.wire

    def known(self) -> tuple[tuple[Identity, Spread], ...]:
        """Return all members for ``Recall`` after a restart."""
        return tuple((m.identity, m.record.wire) for m in self._desk.members if m.record is not None)

    def handle(self, given: Input, now: float) -> tuple[Output, ...]:
        """Take one input and return what to do, in order. Never raises because of bytes from outside."""
        if not self._has_started:
            self._start(now)
        match given:
            case Datagram():
                self._hear_datagram(given, now)
            case Tick():
                self._tick(now)
            case CallResult():
                self._end_call(given, now)
            case Request():
                self._hear_request(given, now)
            case SocketError():
                self._looks.faulted(given.destination, given.fault, now)
            case _:
                self._obey(given, now)
        if self._records.has_backlog:
            self._records.work(now)
        self._spreader.wake(now)
        self._standing.refresh(now)
        out, self._desk.out = tuple(self._desk.out), []
        return out

    def view(self, now: float) -> FleetView:
        """Return the fleet as this node sees it now."""
        return view(self._desk, now)

    def _start(self, now: float) -> None:
        self._has_started = True
        self._desk.pulse.alone_since = now
        self._records.refresh_voters(now)
        self._desk.queue.put(self._desk.hash, News.STATE, introduces=True)
        self._rounds.start(now)
        self._standing.start(now)

    def _tick(self, now: float) -> None:
        timers, pulse = self._desk.timers, self._desk.pulse
        due = timers.pop_due(now)
        while due is not None:
            meant_for, act = due
            if now - meant_for > limits.FREEZE_S:
                self._standing.froze(now)
            pulse.note_delay(meant_for, now)
            act(now)
            due = timers.pop_due(now)

    def _obey(self, given: Join | Leave | Publish | SetRoster | Recall, now: float) -> None:
        match given:
            case Join():
                self._standing.has_seeds = bool(given.seeds)
                self._contact.join(given.seeds, now)
            case Leave():
                self._leave(now)
            case Publish():
                self._publish(given, now)
            case Recall():
                for identity, record in given.known:
                    self._records.defer((introduce(identity), record))
            case SetRoster():
                self._desk.electorate.set_roster(given.racks)
                self._records.refresh_voters(now)

    def _leave(self, now: float) -> None:
        desk = self._desk
        if desk.has_left:
            return
        desk.has_left = True
        desk.accusations.clear()
        desk.renew_record(News.RETRACTION, now)
        self._standing.depart(now)

    def _publish(self, given: Publish, now: float) -> None:
        desk = self._desk
        if given.body == desk.body or desk.has_left:
            return
        desk.body, before = given.body, desk.body
        try:
            desk.renew_record(News.STATE, now)
        except ValueError:
            desk.body = before
            raise

    # Packets.

    def _hear_datagram(self, given: Datagram, now: float) -> None:
        self._desk.pulse.note_delay(given.received_at, now)
        heard = self._intake.open(given.payload, given.source, given.received_at, now, is_stream=False)
        if heard is None:
            return
        for message in heard.messages:
            self._dispatch(message, heard.sender, given, now)
        self._welcome(heard, given.source, now)

    def _hear_request(self, given: Request, now: float) -> None:
        heard = self._intake.open(given.payload, given.source, given.received_at, now, is_stream=True)
        if heard is None:
            return
        if heard.is_newcomer:
            for message in heard.messages[:2]:
                self._dispatch(message, heard.sender, None, now)
        ping = next((one for one in heard.messages if isinstance(one, Ping)), None)
        if ping is not None:
            self._desk.answer(given.request, (self._ack(ping),))
            return
        answer = self._reconciler.answer(heard.messages)
        self._desk.answer(given.request, answer)
        self._records.defer(heard.messages)
        self._welcome(heard, given.source, now)

    def _end_call(self, given: CallResult, now: float) -> None:
        look = self._looks.knock_of(given.call)
        is_exchange = self._reconciler.ended(given.call)
        heard: Heard | None = None
        if given.end is CallEnd.ANSWERED:
            nowhere = Address("", 0)
            heard = self._intake.open(given.answer, nowhere, given.received_at, now, is_stream=True)
        if look is not None:
            acks = [one for one in heard.messages if isinstance(one, Ack)] if heard else []
            if heard is None or not any(
                self._looks.answered(one.sequence, heard.sender.hash, given.received_at, now) for one in acks
            ):
                self._looks.knocked(given.call, given.end, now)
        elif is_exchange and heard is not None:
            for message in heard.messages:
                if isinstance(message, Differ):
                    self._desk.pulse.is_accepted = True
                    self._reconciler.compared(heard.sender, message)
            self._records.defer(heard.messages)

    def _welcome(self, heard: Heard, source: Address, now: float) -> None:
        """Fetch what a newcomer knows, and look back at its address."""
        if heard.is_newcomer and heard.sender.record is not None:
            self._reconciler.exchange(heard.sender, now)
            if source.port:
                self._strangers.check_reach(heard.sender, source, now)

    def _ack(self, ping: Ping) -> Ack:
        desk = self._desk
        return Ack(ping.sequence, desk.members.table_hash, bool(len(desk.queue)))

    def _dispatch(self, message: AnyMessage, sender: Member, packet: Datagram | None, now: float) -> None:
        match message:
            case Ping():
                self._answer_ping(message, sender, packet)
            case Ack():
                self._hear_ack(message, sender, now if packet is None else packet.received_at, now)
            case Spread() | Introduce():
                self._records.hear(message, now)
            case Hello():
                if packet is not None and not self._desk.has_left:
                    self._strangers.returned(message, packet.source, now)
            case Ask() | Heed() | Fine() | Stop():
                self._dispatch_inquiry(message, sender, now)
            case Taken() | Stale() | Deaf():
                self._dispatch_refusal(message, sender, now)
            case _:
                self._desk.counters.drop("by_datagram")

    def _answer_ping(self, ping: Ping, sender: Member, packet: Datagram | None) -> None:
        if packet is not None and not self._desk.has_left:
            news = self._desk.take_news(sender.hash)
            self._desk.send_raw(packet.source, (self._ack(ping), *news))

    def _dispatch_inquiry(self, message: Ask | Heed | Fine | Stop, sender: Member, now: float) -> None:
        subject = NameHash(message.subject)
        match message:
            case Ask():
                self._witnesses.asked(subject, sender, now)
            case Heed():
                self._witnesses.heeded(subject, sender.hash)
            case Fine():
                self._witnesses.found_fine(subject, sender.hash)
            case Stop():
                self._witnesses.stopped(subject, sender.hash)

    def _dispatch_refusal(self, message: Taken | Stale | Deaf, sender: Member, now: float) -> None:
        match message:
            case Taken():
                address = addresses.unpack(message.address)
                if address is not None:
                    self._contact.taken(address, now)
            case Stale():
                if message.epoch == self._desk.epoch < limits.MAX_EPOCH and not self._desk.has_left:
                    self._desk.take_epoch(self._desk.epoch + 1, now)
                    self._desk.report(EpochTaken(epoch=self._desk.epoch))
            case Deaf():
                address = addresses.unpack(message.address)
                if address is not None and sender.address is not None:
                    self._contact.deaf(address, sender.address)

    def _hear_ack(self, ack: Ack, sender: Member, received_at: float, now: float) -> None:
        is_look = self._looks.answered(ack.sequence, sender.hash, received_at, now)
        if is_look or self._rolls.heard(ack.sequence, sender.hash, now):
            self._desk.pulse.is_accepted = True
        self._reconciler.differs(sender, ack.table, is_busy=ack.is_busy, now=now)
