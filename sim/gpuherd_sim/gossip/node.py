"""One simulated host: the kernel's side of its sockets, and the process with the core in it."""

import enum
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.gossip import Gossip
from gpuherd.gossip.identity import Identity
from gpuherd.gossip.inputs import Input, Tick
from gpuherd.gossip.outputs import Output


class State(enum.Enum):
    """What runs. The kernel answers for a process that is gone, and for nothing when the host is off."""

    RUNNING = "running"
    FROZEN = "frozen"
    KILLED = "killed"
    OFF = "off"


@dataclass(slots=True)
class Starvation:
    """How late a starved process gets to what waits: even between the two, in seconds."""

    least_s: float = 0.5
    most_s: float = 2.5
    reads: bool = True
    timers: bool = True


@dataclass(slots=True)
class Node:
    """One host by its number. ``inbox`` is what the kernel holds for the process."""

    number: int
    identity: Identity
    address: Address
    epoch: int
    core: Gossip
    rng: random.Random
    seed: int
    """Of the core's chance."""
    state: State = State.RUNNING
    starvation: Starvation | None = None
    wall_skew_s: float = 0.0
    clock_skew_s: float = 0.0
    """Added to the monotonic clock of this host: a suspended VM, or one that was set forward."""
    inbox: deque[Callable[[float], Input]] = field(default_factory=deque)
    history: list[tuple[Input, float]] = field(default_factory=list)
    """Every input of this run, if kept: since the core is a function of them, this is its snapshot."""
    keeps_history: bool = False
    wake_number: int = 0
    read_at: float = 0.0

    @property
    def runs(self) -> bool:
        """Whether the process gets to run at all."""
        return self.state is State.RUNNING

    @property
    def has_process(self) -> bool:
        """Whether its sockets exist."""
        return self.state in (State.RUNNING, State.FROZEN)

    def clock(self, now: float) -> float:
        """Return this host's monotonic clock at virtual time ``now``."""
        return now + self.clock_skew_s

    def handle(self, given: Input, now: float) -> tuple[Output, ...]:
        """Give the core one input."""
        here = self.clock(now)
        if self.keeps_history:
            self.history.append((given, here))
        return self.core.handle(given, here)

    def drain(self, now: float) -> list[Output]:
        """Hand over all that waits, then the tick when it is due: the order that a shell promises."""
        outputs: list[Output] = []
        while self.inbox:
            outputs.extend(self.handle(self.inbox.popleft()(self.clock(now)), now))
        if self.core.deadline <= self.clock(now):
            outputs.extend(self.handle(Tick(), now))
        return outputs
