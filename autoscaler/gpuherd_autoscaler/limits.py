"""What decisions are bound by, taken from the settings. Nothing here looks at the fleet."""

from dataclasses import dataclass, field

from gpuherd_autoscaler.asks import Terms
from gpuherd_autoscaler.disruption import Disruption
from gpuherd_autoscaler.pools import Deferrable, Pool
from gpuherd_autoscaler.quota import Quota
from gpuherd_autoscaler.racks import Rack


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What ``decide`` is bound by: the pools and the times after which data or waiting is over."""

    pools: tuple[Pool, ...]
    triggers: tuple[Terms, ...] = ()
    deferrable: Deferrable = field(default_factory=Deferrable)
    quota: Quota = field(default_factory=Quota)
    disruptions: tuple[Disruption, ...] = ()
    racks: tuple[Rack, ...] = ()

    state_fresh_s: float = 30.0
    """A state document older than this says nothing of the present. At least two publishing periods."""

    witness_fresh_s: float = 15.0
    """A witness older than this proves no idleness."""

    join_timeout_s: float = 180.0
    """A node asked to serve that has not joined by then is no longer counted on."""

    settle_s: float = 180.0
    """How long after a new session of Ray's head nothing is taken away, unless 90 % are back before."""

    thaw_s: float = 60.0
    """How long the fleet must look sound again before FROZEN ends; also the window of "turned bad"."""

    sample_gap_s: float = 30.0
    """Two decisions further apart than this make no continuous observation: idle clocks start anew."""
