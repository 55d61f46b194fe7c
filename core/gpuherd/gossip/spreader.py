"""The gossip tick: while news waits, three members get some every 0.2 s; streams help with much."""

from collections.abc import Callable

from gpuherd.gossip import limits
from gpuherd.gossip.desk import Desk
from gpuherd.gossip.members import Member


class Spreader:
    """Runs only while the queue holds something."""

    def __init__(self, desk: Desk, exchange: Callable[[Member, float], None]) -> None:
        self._desk = desk
        self._exchange = exchange
        self._is_running = False

    def wake(self, now: float) -> None:
        """Start ticking if there is news; called after every input."""
        if not self._is_running and len(self._desk.queue):
            self._is_running = True
            self._desk.timers.at(now + self._desk.rng.random() * limits.GOSSIP_S, self._tick)

    def _tick(self, now: float) -> None:
        desk = self._desk
        if not len(desk.queue):
            self._is_running = False
            return
        desk.timers.at(now + limits.GOSSIP_S, self._tick)
        others = self._listeners()
        if len(desk.queue) > limits.MANY_QUEUED and others:
            self._exchange(desk.rng.choice(others), now)
        for member in desk.rng.sample(others, min(limits.FANOUT, len(others))):
            if member.record is None or not desk.may_send(limits.MAX_DATAGRAM_BYTES, now):
                continue
            news = desk.take_news(member.hash)
            if news:
                desk.send_raw(member.record.address, news)

    def _listeners(self) -> list[Member]:
        """Return whoever may hear us; the held ones hear of it when they are back."""
        desk = self._desk
        return [
            member
            for member in desk.members
            if member.record is not None
            and not member.has_left
            and not desk.docket.is_held(member.hash)
            and member.hash not in desk.accusations
        ]
