"""Which packets of one sender have been seen: a window of 1,024 counters behind the highest one."""

from dataclasses import dataclass

from gpuherd.gossip import limits


@dataclass(slots=True)
class Window:
    """Counters of one run. ``seen`` has a bit for each of the last REPLAY_WINDOW counters, newest lowest."""

    epoch: int
    top: int = 0
    seen: int = 0

    def is_fresh(self, counter: int) -> bool:
        """Return whether a packet with ``counter`` would be new."""
        behind = self.top - counter
        if behind < 0:
            return True
        return behind < limits.REPLAY_WINDOW and not self.seen >> behind & 1

    def accept(self, counter: int) -> None:
        """Remember ``counter``; call it only after the packet's signature was found good."""
        ahead = counter - self.top
        if ahead > 0:
            kept = self.seen << ahead if ahead < limits.REPLAY_WINDOW else 0
            self.seen = (kept | 1) & ((1 << limits.REPLAY_WINDOW) - 1)
            self.top = counter
        else:
            self.seen |= 1 << -ahead
