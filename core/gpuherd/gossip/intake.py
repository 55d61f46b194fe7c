"""The first look at bytes from outside: size, cluster, sender, replay, signature; cheapest first.

What passes is from a member in its present run and has not been seen before.
"""

from dataclasses import dataclass

from gpuherd.errors import WireInvalid
from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.buckets import Bucket
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.members import Member
from gpuherd.gossip.messages import AnyMessage, Hello
from gpuherd.gossip.outputs import ClusterMismatch
from gpuherd.gossip.packet import Packet, open_packet
from gpuherd.gossip.replay import Window
from gpuherd.gossip.strangers import Strangers


@dataclass(frozen=True, slots=True)
class Heard:
    """A packet that is proven. ``is_newcomer`` = its sender was let in by it."""

    sender: Member
    messages: tuple[AnyMessage, ...]
    is_newcomer: bool


class Intake:
    """Datagrams, requests and answers go through here."""

    def __init__(self, desk: Desk, strangers: Strangers) -> None:
        self._desk = desk
        self._strangers = strangers
        self._mismatches = Bucket(rate=0.1, size=1.0)

    def open(
        self, payload: bytes, source: Address, received_at: float, now: float, *, is_stream: bool
    ) -> Heard | None:
        """Return what a member said, or None when the bytes are not to be used."""
        desk = self._desk
        desk.counters.packets_in += 1
        desk.counters.bytes_in += len(payload)
        packet = self._decode(payload, source, now, is_stream=is_stream)
        if packet is None:
            return None
        member = desk.members.get(packet.sender)
        if member is None or not self._is_present_run(member, packet):
            return self._meet(packet, source, now, is_stream=is_stream)
        if not member.packets.take(1.0, now):
            desk.counters.drop("flood")
            return None
        refusal = self._prove(member, packet)
        if refusal:
            # A greeting has its own proof: its sender may have lost its counters, or its key.
            if any(isinstance(one, Hello) for one in packet.messages):
                return self._meet(packet, source, now, is_stream=is_stream)
            desk.counters.drop(refusal)
            if refusal == "replay" and not is_stream:
                member.replays += 1
                if member.replays >= limits.REPLAYS_IN_A_ROW:
                    member.replays = 0
                    self._strangers.challenge(packet, source, now)
            return None
        member.replays = 0
        member.heard_at = received_at if member.heard_at is None else max(member.heard_at, received_at)
        desk.pulse.note_heard(received_at)
        return Heard(member, packet.messages, is_newcomer=False)

    def _decode(self, payload: bytes, source: Address, now: float, *, is_stream: bool) -> Packet | None:
        desk = self._desk
        most = limits.MAX_FRAME_BYTES if is_stream else limits.MAX_DATAGRAM_BYTES
        try:
            packet = open_packet(payload, max_bytes=most)
        except WireInvalid as error:
            desk.counters.drop(error.reason)
            return None
        if packet.cluster == desk.cluster:
            return packet
        desk.counters.drop("cluster")
        if self._mismatches.take(1.0, now):
            desk.report(ClusterMismatch(address=source))
        return None

    def _prove(self, member: Member, packet: Packet) -> str:
        """Return why a packet is not taken for its sender's, or an empty string."""
        if member.window is None:
            member.window = Window(epoch=packet.epoch)
        if not member.window.is_fresh(packet.counter):
            return "replay"
        self._desk.counters.checks += 1
        if not self._desk.verifier.verify(member.identity.key, packet.signature, packet.signed):
            return "signature"
        member.window.accept(packet.counter)
        return ""

    def _is_present_run(self, member: Member, packet: Packet) -> bool:
        window = member.window
        if window is not None and window.epoch == packet.epoch:
            return member.record is None or member.record.epoch <= packet.epoch
        if member.record is not None and member.record.epoch == packet.epoch:
            member.window = None
            return True
        return False

    def _meet(self, packet: Packet, source: Address, now: float, *, is_stream: bool) -> Heard | None:
        member = self._strangers.meet(packet, source, now, is_stream=is_stream)
        if member is None:
            return None
        self._desk.pulse.note_heard(now)
        return Heard(member, packet.messages, is_newcomer=True)
