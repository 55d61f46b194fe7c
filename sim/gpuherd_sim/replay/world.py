"""The fleet and its queue as they are: hosts, what runs on them, who waits. Decides nothing.

Jobs are placed as Ray places tasks: whatever fits starts at once, so that small jobs overtake a large one.
A job of more GPUs than a host has takes whole hosts.
"""

import enum
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName, PoolName
from gpuherd_sim.replay.faults import FaultModel
from gpuherd_sim.replay.trace import Job


class Power(enum.Enum):
    """Where a host is. AWAY = broken or in repair."""

    OFF = "off"
    BOOTING = "booting"
    UP = "up"
    AWAY = "away"


@dataclass(slots=True, kw_only=True)
class Host:
    """One host. ``free`` counts its GPUs that no job has, sick ones among them."""

    index: int
    name: NodeName
    pool: PoolName
    gpus: int
    power: Power = Power.OFF
    asked: bool = False
    """Whether the policy wants it."""
    free: int = 0
    sick_gpu: bool = False
    sick_gpu_is_free: bool = False
    draining: bool = False
    is_degraded: bool = False
    """Whether it serves without its sick GPU."""
    why_away: str = ""
    on_since: float = 0.0
    idle_since: float | None = None
    was_used: bool = False
    running: set[int] = field(default_factory=set)
    ticket: int = 0
    """Rises with each change of power: an event that was meant for an earlier state is void."""

    @property
    def usable(self) -> int:
        """Return how many GPUs it offers."""
        return self.gpus - 1 if self.is_degraded else self.gpus

    @property
    def takes_work(self) -> bool:
        """Say whether Ray would place work here."""
        return self.power is Power.UP and not self.draining


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A job in the queue, with the work that is left of it."""

    job: Job
    left_s: float
    since: float


@dataclass(slots=True, kw_only=True)
class Running:
    """A job on its hosts. ``is_doomed`` = it runs on a sick GPU and will die of it."""

    waiting: Waiting
    started_at: float
    hosts: tuple[tuple[Host, int], ...]
    is_doomed: bool
    ticket: int


@dataclass(slots=True)
class Ledger:
    """What the replay has cost so far; GPU-seconds unless it says otherwise."""

    paid: float = 0.0
    used: float = 0.0
    lost: float = 0.0
    launches: int = 0
    launches_unused: int = 0
    attempts_failed: int = 0
    faults_met: int = 0
    waits: list[tuple[int, float]] = field(default_factory=list)


class World:
    """The fleet with its queue. Every method moves it by one thing that happens at ``now``."""

    def __init__(self, hosts: list[Host], model: FaultModel, *, seed: int) -> None:
        self.hosts = hosts
        self.model = model
        self.ledger = Ledger()
        self.queues: dict[int, deque[Waiting]] = {}
        self.running: dict[int, Running] = {}
        self.changed = False
        """Whether a host became idle or busy, or changed its power, since someone reset this."""
        self._by_free: dict[int, dict[int, None]] = {}
        self._rng = random.Random(f"world {seed}")  # noqa: S311  reproducible, nothing secret
        self._tickets = 0

    # --- the queue

    @property
    def pending(self) -> Mapping[int, int]:
        """Return how many jobs of each size wait."""
        return {size: len(queue) for size, queue in sorted(self.queues.items()) if queue}

    def submit(self, job: Job, now: float) -> None:
        """Put a new job into the queue."""
        self._enqueue(Waiting(job=job, left_s=job.duration_s, since=now))

    def _enqueue(self, waiting: Waiting) -> None:
        self.queues.setdefault(waiting.job.gpus, deque()).append(waiting)

    def place(self, now: float) -> list[Running]:
        """Start every job that fits, the longest waiting first, and return those that started."""
        started = []
        open_sizes = {size for size, queue in self.queues.items() if queue}
        while open_sizes:
            size = min(open_sizes, key=lambda s: (self.queues[s][0].since, self.queues[s][0].job.number))
            hosts = self._fit(size)
            if hosts is None:
                open_sizes.discard(size)
                continue
            started.append(self._start(self.queues[size].popleft(), hosts, now))
            if not self.queues[size]:
                open_sizes.discard(size)
        return started

    def _fit(self, size: int) -> tuple[tuple[Host, int], ...] | None:
        """Best fit on one host; whole hosts, those of the lowest number first, for a larger job."""
        whole = max(host.gpus for host in self.hosts)
        if size <= whole:
            for free in range(size, whole + 1):
                here = self._by_free.get(free)
                if here:
                    return ((self.hosts[min(here)], size),)
            return None
        count = -(-size // whole)
        here = self._by_free.get(whole, {})
        if len(here) < count:
            return None
        return tuple((self.hosts[i], whole) for i in sorted(here)[:count])

    def _start(self, waiting: Waiting, hosts: tuple[tuple[Host, int], ...], now: float) -> Running:
        is_doomed = False
        for host, gpus in hosts:
            if host.sick_gpu_is_free and self._rng.random() < gpus / host.free:
                is_doomed = True
                host.sick_gpu_is_free = False
            self._refile(host, host.free - gpus)
            host.running.add(waiting.job.number)
            self.changed |= host.idle_since is not None
            host.idle_since = None
            host.was_used = True
        self._tickets += 1
        run = Running(waiting=waiting, started_at=now, hosts=hosts, is_doomed=is_doomed, ticket=self._tickets)
        self.running[waiting.job.number] = run
        return run

    def end_of(self, run: Running) -> float:
        """Return when the job ends by itself, done or dead."""
        return run.started_at + (self.model.shows_s if run.is_doomed else run.waiting.left_s)

    def finish(self, run: Running, now: float) -> None:
        """End a job that is done. What it waited is all that it did not progress, lost work included."""
        self._free(run, now)
        job = run.waiting.job
        self.ledger.used += job.gpus * job.duration_s
        self.ledger.waits.append((job.gpus, max(0.0, now - job.submitted_at - job.duration_s)))

    def fail(self, run: Running, now: float) -> None:
        """End a job that died; it waits again with what its last checkpoint left undone."""
        self._free(run, now)
        job, ran_s = run.waiting.job, now - run.started_at
        saved_s = 0.0 if run.is_doomed else ran_s // self.model.checkpoint_s * self.model.checkpoint_s
        self.ledger.lost += job.gpus * (ran_s - saved_s)
        self.ledger.attempts_failed += 1
        self._enqueue(Waiting(job=job, left_s=run.waiting.left_s - saved_s, since=now))

    def _free(self, run: Running, now: float) -> None:
        del self.running[run.waiting.job.number]
        for host, gpus in run.hosts:
            host.running.discard(run.waiting.job.number)
            if run.is_doomed and host.sick_gpu:
                host.sick_gpu_is_free = True
            self._refile(host, host.free + gpus)
            if not host.running:
                host.idle_since, self.changed = now, True

    # --- hosts

    def boot(self, host: Host, now: float) -> None:
        """Begin the start of a host that is off."""
        self._turn(host, Power.BOOTING, now)
        host.was_used = False
        self.ledger.launches += 1

    def come_up(self, host: Host, now: float) -> None:
        """Let a booting host join."""
        self._turn(host, Power.UP, now)
        host.idle_since = now
        self._refile(host, host.usable)

    def stop(self, host: Host, now: float) -> None:
        """Turn off a host on which nothing runs."""
        if host.power is not Power.AWAY and not host.was_used:
            self.ledger.launches_unused += 1
        self._turn(host, Power.OFF, now)

    def drain(self, host: Host) -> None:
        """Let the host take no new work; what runs goes on."""
        host.draining = True
        self._refile(host, host.free)

    def shrink(self, host: Host, now: float) -> None:
        """Let a drained host come back without its sick GPU: it is on, only its raylet starts anew."""
        host.is_degraded, host.sick_gpu, host.sick_gpu_is_free = True, False, False
        self._turn(host, Power.BOOTING, now)

    def lose(self, host: Host, now: float, why: str) -> None:
        """Take the host away with all that runs on it."""
        for number in sorted(host.running):
            self.fail(self.running[number], now)
        self._turn(host, Power.AWAY, now)
        host.why_away = why

    def sicken(self, host: Host, gpu: int, now: float) -> bool:
        """Let one GPU of the host fail; the job that has it dies. Say whether any did."""
        host.sick_gpu, self.changed = True, True
        busy = host.usable - host.free
        victim = None
        if gpu < busy:
            victim = self._holders(host)[gpu]
        host.sick_gpu_is_free = True
        if victim is not None:
            self.fail(self.running[victim], now)
        return victim is not None

    def _holders(self, host: Host) -> list[int]:
        """Return the job of each busy GPU of the host."""
        return [
            number
            for number in sorted(host.running)
            for other, gpus in self.running[number].hosts
            if other is host
            for _ in range(gpus)
        ]

    def _turn(self, host: Host, power: Power, now: float) -> None:
        if host.power in (Power.BOOTING, Power.UP):
            self.ledger.paid += host.gpus * (now - host.on_since)
        was_on, is_on = host.power in (Power.BOOTING, Power.UP), power in (Power.BOOTING, Power.UP)
        host.power, self.changed = power, True
        host.ticket += 1
        if is_on:
            host.on_since = now
        if was_on and not is_on:
            host.idle_since = None
        if power is not Power.UP:
            host.draining = False
        if power is not Power.UP:
            self._refile(host, 0)
        if power is Power.OFF and host.why_away:
            host.why_away, host.sick_gpu, host.sick_gpu_is_free, host.is_degraded = "", False, False, False

    def _refile(self, host: Host, free: int) -> None:
        self._by_free.get(host.free, {}).pop(host.index, None)
        host.free = free
        if host.takes_work and free > 0:
            self._by_free.setdefault(free, {})[host.index] = None

    def settle(self, now: float) -> None:
        """Charge what is on until now; called once, at the end."""
        for host in self.hosts:
            if host.power in (Power.BOOTING, Power.UP):
                self.ledger.paid += host.gpus * (now - host.on_since)
                host.on_since = now

    def of_power(self, power: Power) -> Iterator[Host]:
        """Yield the hosts that are in this state."""
        return (host for host in self.hosts if host.power is power)
