"""How long to wait before the next try, so that a fleet that lost its broker does not return as one.

Full jitter: any moment between at once and the bound is equally likely. The bound doubles with each
failed try up to the cap.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final

_MAX_DOUBLINGS: Final = 32
"""Beyond it every bound is the cap; keeps 2**attempt small after a year of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``first_s`` bounds the first delay, ``cap_s`` every delay."""

    first_s: float = 10.0
    cap_s: float = 60.0


def next_delay(attempt: int, limits: Limits, rng: random.Random) -> float:
    """Return seconds to wait before try number ``attempt`` (0 = the first one after a loss)."""
    bound = min(limits.cap_s, limits.first_s * 2.0 ** min(attempt, _MAX_DOUBLINGS))
    return rng.uniform(0.0, bound)


@dataclass(slots=True)
class Takeovers:
    """Sessions that the other side closed although both were well.

    Two clients with one id throw each other out for ever (MQTT 3.1.1, section 3.1.4), and the protocol
    names no reason. ``limit`` such ends within ``window_s`` are taken for that.
    """

    limit: int = 3
    window_s: float = 60.0
    total: int = 0
    _recent: deque[float] = field(default_factory=deque)

    def step(self, now: float) -> bool:
        """Count one such end and say whether it is time to stand back for ``window_s``."""
        self.total += 1
        self._recent.append(now)
        while self._recent[0] <= now - self.window_s:
            self._recent.popleft()
        return len(self._recent) >= self.limit
