"""The roll call: before it accuses anybody, a node makes sure that it sees more than half of E.

Half of a split fleet hears no roll and so accuses nobody, whatever it sees of the other half.
"""

from collections.abc import Callable

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.looks import Looks
from gpuherd.gossip.messages import Ping

_NEVER = -1e9

Act = Callable[[float], None]


class Rolls:
    """At most one roll call at a time; those who need one wait for it together."""

    def __init__(self, desk: Desk, looks: Looks, on_change: Act) -> None:
        self._desk = desk
        self._looks = looks
        self._on_change = on_change
        self._waiting: list[Act] = []
        self._sequence: int | None = None
        self._answers: set[NameHash] = set()
        self._asked: tuple[NameHash, ...] = ()
        self._good_at = _NEVER
        self.answered = 0
        """Fresh answers of the last roll call, ourselves counted."""
        self.called_at = _NEVER
        self.is_minority = False

    def need(self, act: Act, now: float) -> None:
        """Call ``act`` once it is sure that we see more than half of E; never, if we do not."""
        if self.is_minority or not self._desk.is_voter:
            return
        if self._sequence is None and now - self._good_at < limits.ROLL_SERVES_S:
            act(now)
            return
        self._waiting.append(act)
        if self._sequence is None:
            self._call(now)

    def heard(self, sequence: int, sender: NameHash, now: float) -> bool:
        """Take an ack; returns whether it answers the roll call that is going on."""
        if sequence != self._sequence:
            return False
        if sender in self._asked:
            self._answers.add(sender)
        if len(self._answers) + 1 >= limits.roll_needs(len(self._desk.electorate.expected)):
            self._end(now, is_good=True)
        return True

    def _call(self, now: float) -> None:
        desk = self._desk
        others = [one for one in desk.electorate.ordered if one != desk.hash]
        size = limits.roll_size(len(desk.electorate.expected)) - 1
        self._asked = tuple(others if len(others) <= size else desk.rng.sample(others, size))
        self._answers = set()
        self._sequence = sequence = self._looks.next_sequence()
        self.called_at = now
        desk.counters.roll_calls += 1
        if limits.roll_needs(len(desk.electorate.expected)) <= 1:
            self._end(now, is_good=True)
            return
        self._ask(sequence)
        desk.timers.at(now + limits.SECOND_PING_S, lambda _: self._ask(sequence))
        desk.timers.at(now + limits.ROLL_S, lambda at: self._expire(sequence, at))

    def _ask(self, sequence: int) -> None:
        if sequence != self._sequence:
            return
        for which in self._asked:
            member = self._desk.members.get(which)
            if member is not None and member.record is not None and which not in self._answers:
                self._desk.send_raw(member.record.address, (Ping(sequence),))

    def _expire(self, sequence: int, now: float) -> None:
        if sequence == self._sequence:
            self._end(now, is_good=False)

    def _end(self, now: float, *, is_good: bool) -> None:
        self._sequence = None
        self.answered = len(self._answers) + 1
        waiting, self._waiting = self._waiting, []
        if is_good:
            self._good_at = now
            if self.is_minority:
                self.is_minority = False
                self._on_change(now)
            for act in waiting:
                act(now)
            return
        if self._desk.pulse.is_late(now) and not self.is_minority:
            return
        if not self.is_minority:
            self.is_minority = True
            self._on_change(now)
        self._desk.timers.at(now + limits.ROLL_AGAIN_S, self._again)

    def _again(self, now: float) -> None:
        if self.is_minority and self._sequence is None and not self._desk.has_left:
            self._call(now)
