"""One look at one member: a ping, after 0.2 s a second one and a knock, after 0.5 s a result.

A second knock covers the loss of the first one's handshake: a stalled process must not pass for a dead host.

A refusal ends it at once: the host answers and nobody listens. An answer over the knock's own stream is as
good as one by UDP; a completed handshake without one means that the process stalls.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.inputs import CallEnd, PathFault
from gpuherd.gossip.messages import Ping
from gpuherd.gossip.outputs import Purpose
from gpuherd.gossip.verdicts import Kind

_SHORTEST_S = 0.05
"""A knock with less time than this is not worth its packets."""
_GRACE_S = 0.1
"""A look waits so long for a knock that is still out."""


class Why(enum.Enum):
    """What a look was started for."""

    ROUND = "round"
    WITNESS = "witness"
    REPROBE = "reprobe"
    NEWCOMER = "newcomer"


@dataclass(slots=True)
class Look:
    """A look that is going on. ``kind`` is what the kernel has said so far."""

    subject: NameHash
    why: Why
    sequence: int
    began_at: float
    kind: Kind | None = None
    knocks: int = 0
    """How many are still out."""
    has_graced: bool = False
    is_done: bool = False


End = Callable[[Look, Kind | None, float], None]
"""Called once with None for an answer, else with what was seen, and with the present."""


class Looks:
    """All looks of this node, by the number in their pings."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._by_sequence: dict[int, Look] = {}
        self._by_knock: dict[int, Look] = {}
        self._ends: dict[Why, End] = {}
        self._sequence = desk.rng.randrange(2**31)

    def on_end(self, why: Why, end: End) -> None:
        """Say who takes the results of looks of this kind."""
        self._ends[why] = end

    def next_sequence(self) -> int:
        """Return a number that no open ping has."""
        self._sequence = (self._sequence + 1) % 2**32
        return self._sequence

    def begin(self, subject: NameHash, why: Why, now: float) -> Look | None:
        """Look at ``subject``; None when it has no address."""
        member = self._desk.members.get(subject)
        if member is None or member.record is None:
            return None
        look = Look(subject=subject, why=why, sequence=self.next_sequence(), began_at=now)
        self._by_sequence[look.sequence] = look
        self._desk.send(member, Ping(look.sequence), is_probe=True)
        self._desk.timers.at(now + limits.SECOND_PING_S, lambda at: self._again(look, at))
        self._desk.timers.at(now + limits.LOOK_S, lambda at: self._expire(look, at))
        return look

    def answered(self, sequence: int, sender: NameHash, received_at: float, now: float) -> bool:
        """Take an ack; returns whether it belongs to a look. Its kernel time says whether it came in time."""
        look = self._by_sequence.get(sequence)
        if look is None or look.subject != sender:
            return False
        if received_at <= look.began_at + limits.LOOK_S + _GRACE_S:
            self._end(look, None, now)
        return True

    def knocked(self, call: int, end: CallEnd, now: float) -> bool:
        """Take the end of a knock without a good answer; returns whether the call was a knock."""
        look = self._by_knock.pop(call, None)
        if look is None:
            return False
        look.knocks -= 1
        if look.is_done:
            return True
        if end is CallEnd.REFUSED:
            self._end(look, Kind.REFUSED, now)
            return True
        if end in (CallEnd.HANDSHAKE, CallEnd.ANSWERED):
            look.kind = Kind.STALLED
        elif look.kind is None:
            self._knock(look, now)
        if look.has_graced and not look.knocks:
            self._end(look, look.kind or Kind.SILENT, now)
        return True

    def knock_of(self, call: int) -> Look | None:
        """Return the look that this call belongs to."""
        return self._by_knock.get(call)

    def faulted(self, destination: Address, fault: PathFault, now: float) -> None:
        """Take an error of the socket that is connected to ``destination``."""
        for look in list(self._by_sequence.values()):
            member = self._desk.members.get(look.subject)
            if member is None or member.address != destination:
                continue
            if fault is PathFault.REFUSED:
                self._end(look, Kind.REFUSED, now)
            elif look.kind is None:
                look.kind = Kind.SILENT

    def cancel(self, look: Look) -> None:
        """Forget a look without a result."""
        look.is_done = True
        self._by_sequence.pop(look.sequence, None)

    def _again(self, look: Look, now: float) -> None:
        member = self._desk.members.get(look.subject)
        if look.is_done or member is None or member.record is None:
            return
        if look.why is not Why.REPROBE:
            self._desk.send(member, Ping(look.sequence), is_probe=True)
        self._knock(look, now)

    def _knock(self, look: Look, now: float) -> None:
        member = self._desk.members.get(look.subject)
        timeout_s = min(limits.KNOCK_S, look.began_at + limits.LOOK_S - now)
        if look.is_done or member is None or member.record is None or timeout_s < _SHORTEST_S:
            return
        call = self._desk.call(member.record.address, (Ping(look.sequence),), timeout_s, Purpose.KNOCK)
        self._by_knock[call] = look
        look.knocks += 1

    def _expire(self, look: Look, now: float) -> None:
        if look.is_done:
            return
        if look.knocks and not look.has_graced:
            look.has_graced = True
            self._desk.timers.at(now + _GRACE_S, lambda at: self._expire(look, at))
            return
        self._end(look, look.kind or Kind.SILENT, now)

    def _end(self, look: Look, kind: Kind | None, now: float) -> None:
        if look.is_done:
            return
        self.cancel(look)
        self._ends[look.why](look, kind, now)
