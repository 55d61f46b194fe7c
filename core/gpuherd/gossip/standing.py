"""Our own role, and what is done once a second because of the time alone."""

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.outputs import Departed, RoleChanged
from gpuherd.gossip.rolls import Rolls
from gpuherd.gossip.verdicts import Role

_HOUSE_S = 1.0
_DEPART_S = 1.0
"""For so long the word that we leave is spread."""


class Standing:
    """Keeps ``desk.role`` and the docket's right to convict."""

    rolls: Rolls

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.has_seeds = False

    def start(self, now: float) -> None:
        """Begin the seconds."""
        self._desk.timers.at(now + _HOUSE_S, self._house)

    def refresh(self, now: float) -> None:
        """Work out our role anew."""
        desk = self._desk
        role = self._role(now)
        if role is desk.role:
            return
        before, desk.role = desk.role, role
        may_convict = role in (Role.ACTIVE, Role.OBSERVER)
        if may_convict and not desk.docket.may_convict:
            desk.docket.may_convict = True
            desk.docket.restart_clocks(now)
            desk.tell(desk.docket.judge_all(now))
        desk.docket.may_convict = may_convict
        desk.report(RoleChanged(before=before, after=role))

    def froze(self, now: float) -> None:
        """We stood still: nothing that time alone would conclude is concluded."""
        self._desk.docket.restart_clocks(now)
        self._desk.pulse.alone_since = now

    def depart(self, now: float) -> None:
        """Tell the shell when our leaving has been spread."""
        self._desk.timers.at(now + _DEPART_S, lambda _: self._desk.report(Departed()))

    def _role(self, now: float) -> Role:
        desk = self._desk
        if desk.has_left or desk.role is Role.RETIRED:
            return Role.RETIRED
        if desk.own.is_observer:
            return Role.OBSERVER
        expected = desk.electorate.expected
        others = len(expected) - (desk.hash in expected)
        if not others and not self.has_seeds:
            return Role.ACTIVE
        if not desk.pulse.is_accepted or not len(desk.members):
            return Role.JOINING
        if desk.electorate.has_roster and desk.hash not in desk.electorate.names:
            return Role.OBSERVER
        if others and desk.pulse.is_isolated(now):
            return Role.ISOLATED
        return Role.MINORITY if self.rolls.is_minority else Role.ACTIVE

    def _house(self, now: float) -> None:
        desk = self._desk
        desk.timers.at(now + _HOUSE_S, self._house)
        desk.tell(desk.docket.due(now))
        desk.members.expire(now)
        for member in list(desk.members):
            is_gone = member.has_left or member.record is None
            if is_gone and now - max(member.changed_at, member.added_at) > limits.REAP_S:
                desk.docket.forget(member.hash)
                desk.queue.drop(member.hash)
                desk.members.bury(member, now)
