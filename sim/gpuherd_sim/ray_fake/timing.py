"""How long things take in Ray, as measured on 2.60 with its default settings unless said otherwise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. Lower ``dead_*`` are what ``gpuherd-head.service`` sets by Ray's health-check variables."""

    refresh_s: float = 1.0
    """The head pulls load from its raylets about once a second, so what it tells is up to this old."""
    rpc_s: float = 0.004
    kv_s: float = 0.002
    call_timeout_s: float = 3.0
    """Deadline of our own helper's calls."""
    spawn_s: float = 2.0
    """From the order to a raylet process."""
    join_s: float = 8.0
    """From the order to a node that the head lists as alive."""
    lease_s: float = 0.16
    """From a free GPU to a pending task on it."""
    dead_after_kill_s: float = 14.0
    dead_after_hang_s: float = 64.7
    drained_exit_s: float = 0.08
    """From the end of the last task to the exit of a draining raylet."""
    term_dead_s: float = 0.03
    term_exit_s: float = 1.1
    resumed_suicide_s: float = 0.1
    """A raylet that the head counts as dead ends itself this long after it goes on."""
    unknown_exit_s: float = 14.0
    """A raylet that a new, empty head does not know ends itself within this."""
    reconnect_timeout_s: float = 600.0
    """How long a raylet lives without a head (Ray's default is 60; our units set 600)."""
