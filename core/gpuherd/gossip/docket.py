"""Accusations counted into verdicts: by Q distinct current records over E, and by nothing else.

Nothing here looks at a member; it adds up what signed records say.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.electorate import Electorate
from gpuherd.gossip.identity import NameHash
from gpuherd.gossip.members import Members
from gpuherd.gossip.records import Record, epoch_low
from gpuherd.gossip.verdicts import Kind, Verdict

GONE = frozenset({Verdict.AGENT_DEAD, Verdict.UNREACHABLE, Verdict.FAILED})
"""Verdicts that end their subject's own voice."""
_MAX_PASSES = 4
"""Verdicts end voices and voices make verdicts; so often one subject is judged again because of that."""


@dataclass(slots=True)
class Standing:
    """A verdict on one member, and since when; ``gone_since`` starts the clock of ``failed``."""

    verdict: Verdict
    since: float
    gone_since: float | None


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict that changed."""

    subject: NameHash
    before: Verdict
    after: Verdict


class Docket:
    """All voices and standing verdicts of this node's view. ``may_convict`` is False in a minority."""

    def __init__(self, members: Members, electorate: Electorate, own: NameHash) -> None:
        self.may_convict = True
        self._members = members
        self._electorate = electorate
        self._own = own
        self._voices: dict[NameHash, dict[NameHash, tuple[int, Kind]]] = {}
        self._standing: dict[NameHash, Standing] = {}

    def verdict(self, subject: NameHash) -> Verdict:
        """Return what stands against ``subject``; LEFT by its own word comes first."""
        member = self._members.get(subject)
        if member is not None and member.has_left:
            return Verdict.LEFT
        standing = self._standing.get(subject)
        return Verdict.ALIVE if standing is None else standing.verdict

    def since(self, subject: NameHash) -> float | None:
        """Return since when the verdict stands; None without one."""
        standing = self._standing.get(subject)
        return None if standing is None else standing.since

    def is_held(self, subject: NameHash) -> bool:
        """Return whether any verdict stands, so that a member is neither probed nor asked."""
        return subject in self._standing

    def has_voices(self, subject: NameHash) -> bool:
        """Return whether anybody at all accuses ``subject``."""
        return bool(self._voices.get(subject))

    @property
    def held(self) -> tuple[NameHash, ...]:
        """All members that a verdict stands against."""
        return tuple(self._standing)

    def voices(self, subject: NameHash) -> dict[NameHash, Kind]:
        """Return the accusations that count: of this run of ``subject``, by living members of E."""
        given = self._voices.get(subject)
        if not given:
            return {}
        member = self._members.get(subject)
        if member is None or member.record is None:
            return {}
        low = epoch_low(member.record.epoch)
        return {
            accuser: kind
            for accuser, (epoch, kind) in given.items()
            if epoch == low and accuser in self._electorate.expected and self._speaks(accuser)
        }

    def hear(self, before: Record | None, after: Record | None, now: float) -> tuple[Ruling, ...]:
        """Take the newest record of one owner instead of its former one."""
        changed: dict[NameHash, None] = {}
        for old in () if before is None else before.accusations:
            self._voices.get(old.subject, {}).pop(before.owner if before else self._own, None)
            changed[old.subject] = None
        for new in () if after is None else after.accusations:
            owner = after.owner if after else self._own
            self._voices.setdefault(new.subject, {})[owner] = (new.epoch_low, new.kind)
            changed[new.subject] = None
        for subject in changed:
            if not self._voices.get(subject):
                self._voices.pop(subject, None)
        owner_of = after or before
        if owner_of is not None and (before is None or after is None or before.epoch != after.epoch):
            changed[owner_of.owner] = None
        if owner_of is not None and owner_of.has_left:
            changed[owner_of.owner] = None
        return self.judge(changed, now)

    def judge_all(self, now: float) -> tuple[Ruling, ...]:
        """Judge everybody again: E or our own standing changed."""
        return self.judge(dict.fromkeys((*self._voices, *self._standing)), now)

    def judge(self, subjects: Iterable[NameHash], now: float) -> tuple[Ruling, ...]:
        """Judge these again, and whoever's voices end or return by that."""
        rulings: list[Ruling] = []
        passes: dict[NameHash, int] = {}
        waiting = deque(subjects)
        while waiting:
            subject = waiting.popleft()
            if subject == self._own or passes.get(subject, 0) >= _MAX_PASSES:
                continue
            passes[subject] = passes.get(subject, 0) + 1
            before, spoke = self.verdict(subject), self._speaks(subject)
            self._decide(subject, now)
            after = self.verdict(subject)
            if after != before:
                rulings.append(Ruling(subject, before, after))
            if self._speaks(subject) != spoke:
                member = self._members.get(subject)
                if member is not None and member.record is not None:
                    waiting.extend(accusation.subject for accusation in member.record.accusations)
        return tuple(rulings)

    def due(self, now: float) -> tuple[Ruling, ...]:
        """Turn what stood long enough into ``failed``."""
        wait = limits.fail_after_s(len(self._electorate.expected))
        rulings = []
        for subject, standing in self._standing.items():
            since = standing.gone_since
            if since is None or standing.verdict is Verdict.FAILED or not self.may_convict:
                continue
            if now - since >= wait:
                rulings.append(Ruling(subject, standing.verdict, Verdict.FAILED))
                standing.verdict, standing.since = Verdict.FAILED, now
        return tuple(rulings)

    def restart_clocks(self, now: float) -> None:
        """Count the time to ``failed`` from now: we stood still, or saw less than half."""
        for standing in self._standing.values():
            if standing.gone_since is not None:
                standing.gone_since = now

    def forget(self, subject: NameHash) -> None:
        """Drop what stands against a member that is no longer known."""
        self._standing.pop(subject, None)

    def _speaks(self, accuser: NameHash) -> bool:
        if accuser == self._own:
            return True
        member = self._members.get(accuser)
        if member is None or member.has_left:
            return False
        standing = self._standing.get(accuser)
        return standing is None or standing.verdict not in GONE

    def _decide(self, subject: NameHash, now: float) -> None:
        member = self._members.get(subject)
        voices = self.voices(subject)
        needed = limits.quorum(len(self._electorate.expected))
        standing = self._standing.get(subject)
        if len(voices) < needed or member is None or member.has_left:
            self._standing.pop(subject, None)
            return
        if not self.may_convict:
            return
        kinds = list(voices.values())
        if Kind.STALLED in kinds:
            verdict = Verdict.STALLED
        elif kinds.count(Kind.REFUSED) >= needed:
            verdict = Verdict.AGENT_DEAD
        else:
            verdict = Verdict.UNREACHABLE
        if standing is None:
            gone_since = now if verdict in GONE else None
            self._standing[subject] = Standing(verdict, now, gone_since)
        elif verdict is Verdict.STALLED:
            if standing.verdict is not verdict:
                self._standing[subject] = Standing(verdict, now, None)
        elif standing.verdict is not Verdict.FAILED and standing.verdict is not verdict:
            self._standing[subject] = Standing(verdict, now, standing.gone_since or now)
