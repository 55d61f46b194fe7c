"""Contact that is never given up: seeds at the start, then for ever seeds and dead members, one at a time."""

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.outputs import AdvertiseUnreachable, NameTaken
from gpuherd.gossip.strangers import Strangers

_MAX_SEEDS = 64
_AT_ONCE = 8
_TAKEN_MEMORY_S = 4.0
"""Being told that our name is taken counts as going on while it is repeated within this."""


class Contact:
    """Greets until somebody answers, so that islands merge and a partition heals."""

    def __init__(self, desk: Desk, strangers: Strangers) -> None:
        self._desk = desk
        self._strangers = strangers
        self.seeds: tuple[Address, ...] = ()
        self._delay_s = limits.HELLO_S
        self._generation = 0
        self._taken_since: float | None = None
        self._taken_at = 0.0
        self._is_deaf_told = False

    def join(self, seeds: tuple[Address, ...], now: float) -> None:
        """Contact these from now on."""
        mine = self._desk.own.advertised
        self.seeds = tuple(dict.fromkeys(one for one in seeds if one != mine))[:_MAX_SEEDS]
        self._delay_s = limits.HELLO_S
        self._generation += 1
        generation = self._generation
        self._desk.timers.at(now, lambda at: self._step(generation, at))

    def taken(self, address: Address, now: float) -> None:
        """A member says that our name is online elsewhere."""
        if self._taken_since is None or now - self._taken_at > _TAKEN_MEMORY_S:
            self._taken_since = now
        self._taken_at = now
        if now - self._taken_since >= limits.TAKEN_PATIENCE_S and not self._desk.pulse.is_accepted:
            self._desk.report(NameTaken(address=address))

    def deaf(self, advertised: Address, told_by: Address) -> None:
        """A member says that it cannot reach the address that we advertise."""
        if advertised == self._desk.own.advertised and not self._is_deaf_told:
            self._is_deaf_told = True
            self._desk.report(AdvertiseUnreachable(advertised=advertised, told_by=told_by))

    def _step(self, generation: int, now: float) -> None:
        desk = self._desk
        if generation != self._generation or desk.has_left:
            return
        is_alone = not desk.pulse.is_accepted or desk.pulse.is_isolated(now)
        if is_alone:
            targets = self._all_seeds()
            self._delay_s = min(limits.RECONNECT_S, 2 * self._delay_s)
            if self._taken_since is not None:
                self._delay_s = limits.HELLO_S
        else:
            targets = self._one_of_each()
            self._delay_s = limits.HELLO_S
        for address in targets:
            self._strangers.greet(address, now)
        delay = self._delay_s if is_alone else limits.RECONNECT_S
        # A node that becomes isolated must not wait for a long pause to end.
        desk.timers.at(now + delay, lambda at: self._step(generation, at))

    def _all_seeds(self) -> list[Address]:
        desk = self._desk
        known = [member.record.address for member in desk.members if member.record is not None]
        found = list(dict.fromkeys((*self.seeds, *known)))
        return found if len(found) <= _AT_ONCE else desk.rng.sample(found, _AT_ONCE)

    def _one_of_each(self) -> list[Address]:
        desk = self._desk
        known = {member.address for member in desk.members if not member.has_left}
        missing = [seed for seed in self.seeds if seed not in known]
        held = [desk.members.get(which) for which in desk.docket.held]
        dead = [member.record.address for member in held if member is not None and member.record]
        return [desk.rng.choice(group) for group in (missing, dead) if group]
