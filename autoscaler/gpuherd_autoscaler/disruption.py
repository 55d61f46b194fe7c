"""Disruption budgets: how many nodes of a pool may be on their way out, by reason and by time. Pure.

They bound what the autoscaler takes away. What is sick, or what people drain, goes by the drain slots.
"""

import enum
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpuherd.names import PoolName
from gpuherd_autoscaler.pools import Pool

_WHOLE: Final = 100.0


class Reason(enum.StrEnum):
    """Why the autoscaler takes a node away."""

    IDLE = "idle"
    """No demand needs it."""
    ABOVE_MAX = "above_max"
    """Its pool has more than its ``max``, or than the size that people have set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """Keys under ``[[disruption]]``. Of several that apply the most restrictive counts."""

    leaving_max: int | None = None
    """Nodes of a pool that may be on their way out at once; 0 = none may go."""

    leaving_percent: float | None = None
    """The same as a share of the pool's listed nodes, rounded up. One of the two is given."""

    pools: tuple[PoolName, ...] = ()
    """Pools that it is for. Empty = each of them."""

    reasons: tuple[Reason, ...] = ()
    """``idle``, ``above_max``. Empty = every reason."""

    window: str = ""
    """The ``[[window]]`` while which it applies. Empty = always. A window whose state is not known
    counts as open."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, why) for everything that cannot be used."""
        if (self.leaving_max is None) is (self.leaving_percent is None):
            yield "leaving_max", "give either leaving_max or leaving_percent"
        if self.leaving_max is not None and self.leaving_max < 0:
            yield "leaving_max", "must not be negative; 0 lets none go"
        if self.leaving_percent is not None and not 0 <= self.leaving_percent <= _WHOLE:
            yield "leaving_percent", f"{self.leaving_percent:g} is outside 0 to 100"

    def nodes(self, pool: Pool) -> int:
        """Return how many nodes of the pool it lets go at once."""
        if self.leaving_max is not None:
            return self.leaving_max
        return math.ceil(len(pool.names) * (self.leaving_percent or 0.0) / _WHOLE)

    def applies(self, pool: Pool, reason: Reason, open_windows: Collection[str] | None) -> bool:
        """Say whether it bounds this now; ``open_windows`` None = not known."""
        is_time = not self.window or open_windows is None or self.window in open_windows
        return is_time and (not self.pools or pool.name in self.pools) and (
            not self.reasons or reason in self.reasons
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """``nodes`` may be on their way out at once, by ``rule``."""

    nodes: int
    rule: str
    words: str


def budget(
    pool: Pool, reason: Reason, disruptions: Iterable[Disruption], open_windows: Collection[str] | None
) -> Budget:
    """Return the tightest bound of the pool's own and the disruptions that apply."""
    own = pool.leaving_budget
    found = [Budget(nodes=own, rule="budget", words=f"{own} of its pool may be on their way out at once")]
    for each in disruptions:
        if each.applies(pool, reason, open_windows):
            nodes = each.nodes(pool)
            when = f" while window {each.window} is open" if each.window else ""
            words = f"a disruption budget lets {nodes} of its pool go at once{when}"
            found.append(Budget(nodes=nodes, rule="disruption", words=words))
    return min(found, key=lambda one: one.nodes)


def disruption_problems(
    disruptions: Sequence[Disruption], pools: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key path, why) for each pool that is none."""
    for i, each in enumerate(disruptions):
        for name in each.pools:
            if name not in pools:
                known = ", ".join(sorted(pools)) or "none is given"
                yield f"disruption[{i}].pools", f"{name!r} is no [[pool]]; known: {known}"
