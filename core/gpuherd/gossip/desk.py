"""What all parts of one node's gossip share: tables, timers, the way out, our own record."""

import random
from dataclasses import dataclass, field

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.broadcast import BroadcastQueue, News
from gpuherd.gossip.buckets import Bucket
from gpuherd.gossip.counters import Counters
from gpuherd.gossip.docket import Docket, Ruling
from gpuherd.gossip.electorate import Electorate
from gpuherd.gossip.identity import Identity, NameHash, Signer, Verifier, cluster_hash, name_hash
from gpuherd.gossip.members import Member, Members
from gpuherd.gossip.messages import AnyMessage, Introduce
from gpuherd.gossip.outputs import Answer, Call, Event, Output, Purpose, SendDatagram, VerdictChanged
from gpuherd.gossip.packet import OVERHEAD_BYTES, Stamp, seal, spread_bytes
from gpuherd.gossip.pulse import Pulse
from gpuherd.gossip.records import Accusation, Draft, Record, sign
from gpuherd.gossip.timers import Timers
from gpuherd.gossip.verdicts import Role
from gpuherd.names import ClusterName

_MAX_PIGGYBACK = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Self:
    """Who this node is. ``epoch`` = max(wall ms, stored epoch + 1), which the shell works out at start."""

    cluster: ClusterName
    identity: Identity
    epoch: int
    advertised: Address
    is_observer: bool = False


@dataclass(slots=True)
class Desk:
    """State that several parts need. Parts are built over it and know each other only through it."""

    own: Self
    signer: Signer
    verifier: Verifier
    rng: random.Random
    hash: NameHash = field(init=False)
    cluster: bytes = field(init=False)
    members: Members = field(default_factory=Members)
    electorate: Electorate = field(default_factory=Electorate)
    docket: Docket = field(init=False)
    queue: BroadcastQueue = field(default_factory=BroadcastQueue)
    timers: Timers = field(default_factory=Timers)
    pulse: Pulse = field(default_factory=Pulse)
    counters: Counters = field(default_factory=Counters)
    role: Role = Role.JOINING
    body: Body = field(default_factory=Body)
    epoch: int = 0
    version: int = 0
    has_left: bool = False
    has_more: bool = False
    accusations: dict[NameHash, Accusation] = field(default_factory=dict)
    record: Record = field(init=False)
    out: list[Output] = field(default_factory=list)
    _counter: int = 0
    _call: int = 0
    _packets: Bucket = field(
        default_factory=lambda: Bucket(rate=limits.PACKETS_PER_S, size=limits.PACKETS_PER_S * limits.BURST_S)
    )
    _bytes: Bucket = field(
        default_factory=lambda: Bucket(rate=limits.BYTES_PER_S, size=limits.BYTES_PER_S * limits.BURST_S)
    )

    def __post_init__(self) -> None:
        self.hash = name_hash(self.own.identity.name)
        self.cluster = cluster_hash(self.own.cluster)
        self.docket = Docket(self.members, self.electorate, self.hash)
        self.epoch = self.own.epoch
        self.role = Role.OBSERVER if self.own.is_observer else Role.JOINING
        self.record = self._sign_record()

    # Our own record.

    @property
    def is_voter(self) -> bool:
        """Whether this node probes and has a voice in verdicts."""
        return not self.own.is_observer and not self.has_left and self.hash in self.electorate.expected

    def renew_record(self, news: News, now: float) -> None:
        """Sign our record anew and spread it."""
        before = self.record
        self.record = self._sign_record()
        self.queue.put(self.hash, news, introduces=before.version == 0)
        self.tell(self.docket.hear(before, self.record, now))

    def take_epoch(self, epoch: int, now: float) -> None:
        """Begin a new run under a higher epoch; counters start anew."""
        self.epoch, self.version, self._counter = epoch, 0, 0
        self.accusations.clear()
        before, self.record = self.record, self._sign_record()
        self.queue.put(self.hash, News.RETRACTION, introduces=True)
        self.tell(self.docket.hear(before, self.record, now))

    def _sign_record(self) -> Record:
        self.version += 1
        draft = Draft(
            owner=self.hash,
            epoch=self.epoch,
            version=self.version,
            address=self.own.advertised,
            body=self.body,
            has_left=self.has_left,
            is_observer=self.own.is_observer,
            has_more=self.has_more,
            accusations=tuple(self.accusations.values()),
        )
        self.members.set_own(self.hash, (self.epoch, self.version))
        return sign(draft, self.cluster, self.signer)

    # The way out.

    def tell(self, rulings: tuple[Ruling, ...]) -> None:
        """Report verdicts that changed."""
        for ruling in rulings:
            member = self.members.get(ruling.subject)
            if member is not None:
                name = member.identity.name
                self.out.append(VerdictChanged(name=name, before=ruling.before, after=ruling.after))

    def report(self, event: Event) -> None:
        """Tell the shell something."""
        self.out.append(event)

    def send(self, to: Member, *messages: AnyMessage, is_probe: bool = False) -> None:
        """Send to a member, with as much news as fits."""
        if to.record is not None:
            news = self.take_news(to.hash)
            self.send_raw(to.record.address, (*messages, *news), is_probe=is_probe)

    def send_raw(self, to: Address, messages: tuple[AnyMessage, ...], *, is_probe: bool = False) -> None:
        """Send to an address without anything added."""
        payload = self.seal(messages)
        self.counters.packets_out += 1
        self.counters.bytes_out += len(payload)
        self.out.append(SendDatagram(destination=to, payload=payload, is_probe=is_probe))

    def call(self, to: Address, messages: tuple[AnyMessage, ...], timeout_s: float, purpose: Purpose) -> int:
        """Open a stream and return the number under which its result comes."""
        self._call += 1
        payload = self.seal(messages)
        self.counters.calls += 1
        self.counters.bytes_out += len(payload)
        self.out.append(
            Call(
                call=self._call,
                destination=to,
                payload=payload,
                timeout_s=timeout_s,
                purpose=purpose,
            )
        )
        return self._call

    def answer(self, request: int, messages: tuple[AnyMessage, ...]) -> None:
        """Answer on a stream that was opened to us."""
        payload = self.seal(messages)
        self.counters.bytes_out += len(payload)
        self.out.append(Answer(request=request, payload=payload))

    def seal(self, messages: tuple[AnyMessage, ...]) -> bytes:
        """Return one signed packet with the next counter."""
        self._counter += 1
        stamp = Stamp(cluster=self.cluster, sender=self.hash, epoch=self.epoch, counter=self._counter)
        return seal(stamp, messages, self.signer)

    def may_send(self, size: int, now: float) -> bool:
        """Return whether the budget has room for one more packet that may be left out."""
        if self._packets.take(1.0, now) and self._bytes.take(float(size), now):
            return True
        self.counters.shed += 1
        return False

    def take_news(self, towards: NameHash) -> tuple[AnyMessage, ...]:
        """Return records, each with its owner's identity if that is new, that fit into one datagram."""
        room = limits.MAX_DATAGRAM_BYTES - OVERHEAD_BYTES - limits.MAX_IDENTITY_BYTES
        taken: list[AnyMessage] = []
        for item in self.queue.choose(_MAX_PIGGYBACK):
            record, identity = self.lookup(item.owner)
            if record is None or item.owner == towards:
                if record is None:
                    self.queue.drop(item.owner)
                continue
            introduction = introduce(identity) if item.introduces and identity is not None else None
            size = spread_bytes(record.wire) + (limits.MAX_IDENTITY_BYTES if introduction else 0)
            if size > room:
                continue
            room -= size
            if introduction is not None:
                taken.append(introduction)
            taken.append(record.wire)
            self.queue.sent(item, len(self.members) + 1)
        return tuple(taken)

    def lookup(self, which: NameHash) -> tuple[Record | None, Identity | None]:
        """Return the newest record and the identity of a name, our own too."""
        if which == self.hash:
            return self.record, self.own.identity
        member = self.members.get(which)
        return (None, None) if member is None else (member.record, member.identity)


def introduce(identity: Identity) -> Introduce:
    """Return the message that carries an identity."""
    return Introduce(
        name=identity.name,
        key=identity.key,
        issued_at_s=identity.issued_at_s,
        ca_signature=identity.ca_signature,
    )
