"""Our own health as a judge: whether our loop is late, whether we hear anybody (Lifeguard's local health).

A node that is late, or that hears nobody, has no business accusing others.
"""

from dataclasses import dataclass

from gpuherd.gossip import limits

_LONG_AGO = -1e9


@dataclass(slots=True)
class Pulse:
    """``score`` is 0 (well) to MAX_HEALTH. Times are of the kernel where a packet is meant."""

    score: int = 0
    late_at: float = _LONG_AGO
    heard_at: float = _LONG_AGO
    is_accepted: bool = False
    """Whether any member has answered us as one of its own."""
    alone_since: float = _LONG_AGO
    """Since when there is somebody to be heard at all."""

    def note_delay(self, meant_for: float, now: float) -> None:
        """Take note of a timer or packet that was handled at ``now`` and was due at ``meant_for``."""
        if now - meant_for > limits.LATE_S:
            self.late_at = now

    def note_heard(self, received_at: float) -> None:
        """Take note of a valid packet of another member."""
        self.heard_at = max(self.heard_at, received_at)

    def is_late(self, now: float) -> bool:
        """Return whether rounds of now are void."""
        return now - self.late_at < limits.LATE_MEMORY_S

    def is_isolated(self, now: float) -> bool:
        """Return whether nobody has been heard for ISOLATED_S of our rounds."""
        return now - max(self.heard_at, self.alone_since) > limits.ISOLATED_S * self.period_s

    @property
    def period_s(self) -> float:
        """Return the length of a round at the present score."""
        return limits.PERIOD_S * (self.score + 1)

    def ease(self) -> None:
        """A good round."""
        self.score = max(0, self.score - 1)

    def worsen(self) -> None:
        """A void round, or witnesses that did not answer."""
        self.score = min(limits.MAX_HEALTH, self.score + 1)
