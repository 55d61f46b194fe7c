"""What a policy of the fleet is asked and answers in a replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuherd_sim.replay.world import Host, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Indexes of hosts to turn on and off. ``look_again_at`` = when time alone may change the answer."""

    start: Sequence[int] = ()
    stop: Sequence[int] = ()
    look_again_at: float | None = None

    @property
    def is_silent(self) -> bool:
        """Say whether nothing is asked."""
        return not self.start and not self.stop


class Policy(Protocol):
    """Decides on the fleet as it is now."""

    name: str
    watches_health: bool
    """Whether a sick GPU is seen by an agent, or only by a person after a while."""

    def decide(self, world: World, now: float, *, metrics_known: bool) -> Decision:
        """Return what to turn on and off; ``metrics_known`` = the head answers."""

    def may_take_out(self, world: World, host: Host) -> bool:
        """Say whether a host with a sick GPU may be drained now: the pool's budget of nodes out."""

    def close(self) -> None:
        """End what the policy started."""
