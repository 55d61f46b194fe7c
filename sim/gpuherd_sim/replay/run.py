"""Moves a replay through time, event by event: jobs come and end, hosts break, the policy decides."""

import heapq
import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuherd_sim.replay.faults import Fault, Kind, is_within
from gpuherd_sim.replay.policy import Decision, Policy
from gpuherd_sim.replay.trace import Job
from gpuherd_sim.replay.world import Host, Power, Running, World

_FOLLOW_UPS: Final = 2
"""Decisions after the one that something led to: demand must have lasted two polls to count."""
_STUCK_S: Final = 30 * 86_400.0
"""A replay in which nothing has happened for so long ends; what still waits was never served."""
_NEVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How time passes for hosts and policy."""

    period_s: float = 5.0
    """From one decision to the next while things happen; both autoscalers ship with 5 s."""
    boot_s: float = 300.0
    """Median time of a start; bare metal that stands by needs about 12 s, a cold host minutes."""
    rejoin_s: float = 12.0
    """A raylet that starts anew on a host that is on."""
    boot_spread: float = 0.25
    """Sigma of the logarithm of a start."""
    start_timeout_s: float = 900.0
    """After so long a failed start is given up."""
    heartbeat_s: float = 600.0
    """While jobs wait, the policy looks at least this often."""
    wall_limit_s: float = _NEVER
    """The replay stops after so much real time; jobs that have not ended then count as cut."""


@dataclass(slots=True)
class Outcome:
    """What a replay came to, beside the world's own ledger."""

    ended_at: float = 0.0
    decisions: int = 0
    decided_s: float = 0.0
    """Real seconds spent in decisions."""
    wall_s: float = 0.0
    was_cut: bool = False


@dataclass(slots=True)
class Replay:
    """One replay; make it, then ``run`` it once."""

    world: World
    policy: Policy
    pace: Pace
    jobs: Sequence[Job]
    faults: Sequence[Fault]
    seed: int
    outcome: Outcome = field(default_factory=Outcome)
    _events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _decide_at: float = 0.0
    _decided_at: float = -_NEVER
    _follow: int = 0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"starts {self.seed}")  # noqa: S311  reproducible, nothing secret

    def run(self) -> Outcome:
        """Replay the whole trace and return the outcome; the world's ledger is settled."""
        began = time.perf_counter()
        for job in self.jobs:
            self._at(job.submitted_at, self._submitted(job))
        for fault in self.faults:
            self._at(fault.at, self._broken(fault))
        now = self._loop(began)
        self.world.settle(now)
        self.outcome.ended_at = now
        self.outcome.wall_s = time.perf_counter() - began
        return self.outcome

    def _loop(self, began: float) -> float:
        now, last = 0.0, 0.0
        left = len(self.jobs)
        while len(self.world.ledger.waits) < left:
            now = min(self._events[0][0] if self._events else _NEVER, self._decide_at)
            if now == _NEVER or now - last > _STUCK_S:
                return last
            if time.perf_counter() - began > self.pace.wall_limit_s:
                self.outcome.was_cut = True
                return now
            happened = self._step(now)
            last = now if happened else last
            if happened and self._matters():
                self._follow = _FOLLOW_UPS
                self._decide_at = min(self._decide_at, max(now, self._decided_at + self.pace.period_s))
            if now >= self._decide_at:
                self._decide(now)
        return now

    def _matters(self) -> bool:
        """Say whether a policy could decide otherwise than before: someone waits, or a host changed.

        A job that comes or goes on a host that stays busy, with nobody waiting, changes no decision.
        """
        changed, self.world.changed = self.world.changed, False
        return changed or bool(self.world.pending)

    def _step(self, now: float) -> bool:
        happened = False
        while self._events and self._events[0][0] <= now:
            heapq.heappop(self._events)[2](now)
            happened = True
        if happened:
            self._place(now)
        return happened

    def _place(self, now: float) -> None:
        for run in self.world.place(now):
            self._at(self.world.end_of(run), self._ended(run))

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    # --- what the policy does

    def _decide(self, now: float) -> None:
        known = not is_within(self.world.model.metrics, now)
        began = time.perf_counter()
        decision = self.policy.decide(self.world, now, metrics_known=known)
        self.outcome.decided_s += time.perf_counter() - began
        self.outcome.decisions += 1
        self._decided_at = now
        self._follow -= 1
        if not decision.is_silent:
            self._follow = _FOLLOW_UPS
            self._apply(decision, now)
        self._decide_at = self._next(decision, now)

    def _next(self, decision: Decision, now: float) -> float:
        if self._follow > 0:
            return now + self.pace.period_s
        due = (
            _NEVER
            if decision.look_again_at is None
            else max(decision.look_again_at, now + self.pace.period_s)
        )
        if self.world.pending or any(host.draining for host in self.world.hosts):
            due = min(due, now + self.pace.heartbeat_s)
        return due

    def _apply(self, decision: Decision, now: float) -> None:
        for index in decision.start:
            host = self.world.hosts[index]
            host.asked = True
            if host.power is Power.OFF:
                self._boot(host, now)
        for index in decision.stop:
            host = self.world.hosts[index]
            host.asked = False
            if host.power in (Power.BOOTING, Power.UP) and not host.running:
                self._stop(host, now)

    def _stop(self, host: Host, now: float) -> None:
        """Turn off a host; a degraded one goes to repair, as nobody needs it now."""
        if host.is_degraded:
            self._take_away(host, now, "gpu")
        else:
            self.world.stop(host, now)

    def _boot(self, host: Host, now: float) -> None:
        self.world.boot(host, now)
        model, ticket = self.world.model, host.ticket
        fails = is_within(model.capacity, now) or self._rng.random() < model.start_failures_ratio
        if fails:
            self._at(now + self.pace.start_timeout_s, self._not_up(host, ticket))
            return
        spread = self._rng.lognormvariate(0.0, self.pace.boot_spread)
        self._at(now + self.pace.boot_s * spread, self._up(host, ticket))

    # --- what happens

    def _submitted(self, job: Job) -> Callable[[float], None]:
        return lambda now: self.world.submit(job, now)

    def _ended(self, run: Running) -> Callable[[float], None]:
        def act(now: float) -> None:
            if self.world.running.get(run.waiting.job.number) is not run:
                return
            if run.is_doomed:
                self.world.fail(run, now)
            else:
                self.world.finish(run, now)
            for host, _ in run.hosts:
                self._leave_if_drained(host, now)

        return act

    def _up(self, host: Host, ticket: int) -> Callable[[float], None]:
        def act(now: float) -> None:
            if host.ticket == ticket:
                self.world.come_up(host, now)
                if host.sick_gpu:
                    self._seen(host, now)

        return act

    def _not_up(self, host: Host, ticket: int) -> Callable[[float], None]:
        def act(now: float) -> None:
            if host.ticket == ticket:
                self.world.stop(host, now)
                if host.asked and self.policy.watches_health:
                    self._boot(host, now)

        return act

    def _broken(self, fault: Fault) -> Callable[[float], None]:
        def act(now: float) -> None:
            host = self.world.hosts[fault.host]
            if host.power is not Power.UP or host.sick_gpu:
                return
            self.world.ledger.faults_met += 1
            if fault.kind is Kind.HOST:
                self._take_away(host, now, "host")
                return
            self.world.sicken(host, fault.gpu, now)
            self._seen(host, now)

        return act

    def _seen(self, host: Host, now: float) -> None:
        model = self.world.model
        after_s = model.verdict_s if self.policy.watches_health else model.noticed_s
        self._at(now + after_s, self._take_out(host, host.ticket))

    def _take_out(self, host: Host, ticket: int) -> Callable[[float], None]:
        def act(now: float) -> None:
            if host.ticket != ticket or host.draining:
                return
            if self.policy.watches_health and not self.policy.may_take_out(self.world, host):
                self._at(now + self.pace.period_s, self._take_out(host, ticket))
                return
            self.world.drain(host)
            self._leave_if_drained(host, now)

        return act

    def _leave_if_drained(self, host: Host, now: float) -> None:
        """Let a drained host rejoin without its sick GPU, or leave for repair where nobody knows which."""
        if not host.draining or host.running:
            return
        if self.policy.watches_health and host.sick_gpu and not host.is_degraded:
            self.world.shrink(host, now)
            self._at(now + self.pace.rejoin_s, self._up(host, host.ticket))
        else:
            self._take_away(host, now, "gpu")

    def _take_away(self, host: Host, now: float, why: str) -> None:
        self.world.lose(host, now, why)
        ticket = host.ticket
        self._at(now + self.world.model.repair_s, self._repaired(host, ticket))

    def _repaired(self, host: Host, ticket: int) -> Callable[[float], None]:
        def act(now: float) -> None:
            if host.ticket != ticket:
                return
            self.world.stop(host, now)
            if host.asked:
                self._boot(host, now)

        return act
