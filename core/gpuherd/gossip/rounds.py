"""The probe rounds: once a period one expected member, in shuffled turns."""

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.looks import Look, Looks, Why
from gpuherd.gossip.rolls import Rolls
from gpuherd.gossip.verdicts import Kind
from gpuherd.gossip.witnesses import Witnesses


class Rounds:
    """Who is next, and what its answer or silence leads to."""

    def __init__(self, desk: Desk, looks: Looks, witnesses: Witnesses, rolls: Rolls) -> None:
        self._desk = desk
        self._looks = looks
        self._witnesses = witnesses
        self._rolls = rolls
        self._turns: list[NameHash] = []
        self._extra_at = 0.0
        # A refusal comes within a millisecond: without a distance dead agents are asked 500 times a second.
        looks.on_end(Why.ROUND, self._ended)

    def start(self, now: float) -> None:
        """Begin at a random moment of the first period, so that a fleet does not probe in step."""
        self._desk.timers.at(now + self._desk.rng.random() * self._desk.pulse.period_s, self._step)

    def _step(self, now: float) -> None:
        desk = self._desk
        if desk.has_left:
            return
        subject = self._next()
        if subject is not None:
            desk.counters.rounds += 1
            self._looks.begin(subject, Why.ROUND, now)
        desk.timers.at(now + desk.pulse.period_s, self._step)

    def _next(self) -> NameHash | None:
        """Return the next member that can be probed. Observers probe too: it is how they see."""
        desk = self._desk
        for _ in range(2):
            while self._turns:
                which = self._turns.pop()
                member = desk.members.get(which)
                if which not in desk.electorate.expected or member is None or member.record is None:
                    continue
                if which in desk.accusations or desk.docket.is_held(which):
                    continue
                return which
            self._turns = [one for one in desk.electorate.ordered if one != desk.hash]
            desk.rng.shuffle(self._turns)
        return None

    def _ended(self, look: Look, kind: Kind | None, now: float) -> None:
        desk = self._desk
        if kind is None:
            desk.pulse.ease()
            return
        desk.counters.looks_failed += 1
        if desk.pulse.is_late(now):
            desk.counters.rounds_void += 1
            desk.pulse.worsen()
            return
        if not desk.is_voter or self._rolls.is_minority:
            return
        # Silence is seldom alone: the next member is looked at now, so that a lost rack is known in seconds.
        if now >= self._extra_at:
            self._extra_at = now + limits.LOOK_S
            another = self._next()
            if another is not None:
                self._looks.begin(another, Why.ROUND, now)
        if look.subject in desk.accusations or desk.docket.is_held(look.subject):
            return
        self._witnesses.inquire(look, kind, now)
