"""Token buckets: so much a second, with a bounded burst."""

from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """``rate`` tokens a second, at most ``size`` kept. Starts full."""

    rate: float
    size: float
    level: float = -1.0
    at: float = 0.0

    def take(self, amount: float, now: float) -> bool:
        """Take ``amount`` tokens if there are so many, and say whether there were."""
        if self.level < 0.0:
            self.level, self.at = self.size, now
        self.level = min(self.size, self.level + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)
        if self.level < amount:
            return False
        self.level -= amount
        return True
