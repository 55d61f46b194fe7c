"""The loop: observe, decide, and in enforce mode act; then show what was decided. No decision is made here.

A crash at any step is safe: what was committed is published again by the next run, what was not never was.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuherd.bus import Bus
from gpuherd.errors import Retryable
from gpuherd.names import NodeName
from gpuherd.ray import RayNode, Shape
from gpuherd.shell import logs
from gpuherd.wire.documents import State
from gpuherd_autoscaler import acts, trust
from gpuherd_autoscaler.acts import TermNeed
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.chronicle import Chronicle
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.imagine import imagine
from gpuherd_autoscaler.inventory import by_name
from gpuherd_autoscaler.lease import Lease, SoleLease
from gpuherd_autoscaler.ledger import LedgerFailed, Mode, Note
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.news import News
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.record import Inputs
from gpuherd_autoscaler.snapshot import GossipSight, Snapshot, Sourced
from gpuherd_autoscaler.sources import ReadSight
from gpuherd_autoscaler.steering import let_end
from gpuherd_autoscaler.summary import summary
from gpuherd_autoscaler.wishes import standing

log = logs.get("gpuherd.autoscaler")

_CONNECTED_FOR_S = 0.5
"""After the broker took us, what it has retained arrives at once; this long is ample."""

_MAX_UNTOLD = 1_000
"""News that wait for a disk that refuses; older ones are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One decision and what it looked at. ``wall`` is wall-clock seconds, ``took_s`` the pure part's time."""

    snapshot: Snapshot
    plan: Plan
    mode: Mode
    wall: float
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When the loop turns, in seconds."""

    interval_s: float = 5.0
    min_gap_s: float = 1.0
    settle_s: float = 5.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the loop shows to others."""

    last: Decided | None = None
    cycles: int = 0
    ledger_failed: str = ""
    """Why the last commit failed; empty = it did not."""
    lead: str = ""
    """Why plans are not acted on here: another leads, or our lead is not confirmed. Empty = we lead."""
    has_term: bool = False
    """Whether this run has taken its term, before which nothing is acted on."""
    orders: int = 0
    """Orders that plans have changed."""
    refusals: Counter[str] = field(default_factory=Counter)
    """What was wanted and not done, by the rule that forbade it; counted in each turn in which it stands."""


class Loop:
    """Give it its parts, then ``run`` it; ``wake`` it on news."""

    def __init__(
        self,
        *,
        book: Book,
        bus: Bus,
        publisher: Publisher,
        read_sight: ReadSight,
        limits: Limits,
        pace: Pace | None = None,
    ) -> None:
        self._lease: Lease = SoleLease()
        self._book = book
        self._bus = bus
        self._publisher = publisher
        self._read_sight = read_sight
        self._limits = limits
        self._pace = pace or Pace()
        self._read_gossip: Callable[[float], Sourced[GossipSight]] = lambda _: Sourced(error="gossip is off")
        self._read_triggers: Callable[[float], Mapping[str, Sourced[int]]] = lambda _: {}
        self._look_at_windows: Callable[[], Sourced[tuple[str, ...]]] = lambda: Sourced(
            error="there are none"
        )
        self._record: Callable[[Inputs, Plan], None] | None = None
        self._chronicle: Chronicle | None = None
        self._clock = book.clock
        self._memory = Memory()
        self._news = News()
        self._untold: tuple[Note, ...] = ()
        self._wake = asyncio.Event()
        self.outcome = Outcome()

    def lead_by(self, lease: Lease) -> None:
        """Act only as this lease allows; without one this scaler is taken to be the only one."""
        self._lease = lease

    def hear_by(self, read_gossip: Callable[[float], Sourced[GossipSight]]) -> None:
        """Put what the gossip says at each turn into the snapshot."""
        self._read_gossip = read_gossip

    def ask_by(
        self,
        read_triggers: Callable[[float], Mapping[str, Sourced[int]]],
        look_at_windows: Callable[[], Sourced[tuple[str, ...]]],
    ) -> None:
        """Put what triggers ask for, and which windows are open, into the snapshot."""
        self._read_triggers = read_triggers
        self._look_at_windows = look_at_windows

    def record_to(self, record: Callable[[Inputs, Plan], None]) -> None:
        """Hand every decision over, with all that it depended on."""
        self._record = record

    def tell_to(self, chronicle: Chronicle) -> None:
        """Keep decisions there for people to look at."""
        self._chronicle = chronicle

    def imagine(self, more: Sequence[Shape]) -> Plan:
        """Return what would be asked if these requests waited too; raises Retryable without a picture."""
        last = self.outcome.last
        if last is None:
            raise Retryable("no decision has been made yet; try again in a few seconds")
        return imagine(last.snapshot, self._memory, self._limits, more)

    def wake(self) -> None:
        """Decide again soon."""
        self._wake.set()

    async def run(self) -> None:
        """Turn until cancelled."""
        await self._settle()
        while True:
            started = self._clock.now()
            await self.cycle()
            await self._pause(started)

    async def _settle(self) -> None:
        """Wait until the broker has told what it retains, at most ``settle_s``."""
        end = self._clock.now() + self._pace.settle_s
        while not self._bus.is_connected and self._clock.now() < end:
            await self._clock.sleep_until(min(end, self._clock.now() + 0.1))
        if self._bus.is_connected:
            await self._clock.sleep_until(min(end, self._clock.now() + _CONNECTED_FOR_S))

    async def _pause(self, started: float) -> None:
        """Wait for the next turn: ``interval_s`` after the last, or earlier on news."""
        await self._clock.sleep_until(started + self._pace.min_gap_s)
        due = started + self._pace.interval_s
        async with asyncio.TaskGroup() as group:
            waits = {
                group.create_task(self._wake.wait()),
                group.create_task(self._clock.sleep_until(due)),
            }
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        self._wake.clear()

    async def cycle(self) -> None:
        """Turn once: confirm the lead, read the head, decide, act, show."""
        await self._lease.look()
        sight = await self._read_sight()
        now = self._clock.now()
        orders = {name: order.serve for name, order in self._book.ledger.orders.items()}
        snapshot = self._book.inventory.snapshot(cluster=sight, limits=self._limits, orders=orders, now=now)
        snapshot = replace(
            snapshot,
            cluster=trust.of_cluster(snapshot.cluster, snapshot.nodes, self._limits.state_fresh_s),
            gossip=self._read_gossip(now),
            triggers=self._read_triggers(now),
            open_windows=self._look_at_windows(),
            wishes=standing(self._book.ledger.wishes, self._clock.wall()),
        )
        before = self._memory
        plan, self._memory = decide(snapshot, before, self._limits, now)
        took_s = self._clock.now() - now
        if self._record is not None:
            self._record(Inputs(snapshot=snapshot, memory=before, limits=self._limits, now=now), plan)
        decided = Decided(
            snapshot=snapshot,
            plan=plan,
            mode=self._book.mode,
            wall=self._clock.wall(),
            took_s=took_s,
        )
        states = {n: s for n in self._book.herd.names if (s := self._book.state(n)) is not None}
        taking = await self._claim(states)
        self._act(decided, states, taking)
        if self._chronicle is not None:
            term = self._book.ledger.term
            self._chronicle.take(snapshot, plan, mode=decided.mode, term=term, wall=decided.wall)
        self.outcome.last = decided
        self.outcome.cycles += 1
        self._show(decided)

    async def _claim(self, states: Mapping[NodeName, State]) -> tuple[TermNeed, int] | None:
        """Claim a term when one is needed; None when none is, or when it could not be had."""
        if self._lease.why_not_leading():
            self.outcome.has_term = False
        need = acts.term_need(self._book, states, is_start=not self.outcome.has_term)
        if need is None:
            return None
        fresh = await self._lease.claim(need.highest + 1)
        return None if fresh is None else (need, fresh)

    def _act(
        self, decided: Decided, states: Mapping[NodeName, State], taking: tuple[TermNeed, int] | None
    ) -> None:
        """Record and carry out what the lead allows; a disk that refuses stops all acts and is told once."""
        nodes = decided.snapshot.cluster.value.nodes if decided.snapshot.cluster.value else ()
        in_ray: dict[NodeName, RayNode] = by_name(nodes, states)
        news = self._news.notes(decided.snapshot, decided.plan, decided.wall)
        self._untold = (*self._untold, *news)[-_MAX_UNTOLD:]
        try:
            if taking is not None:
                acts.take_term(self._book, states, taking[0], fresh=taking[1])
                self.outcome.has_term = True
            self.outcome.lead = self._lease.why_not_acting()
            if not self.outcome.has_term:
                return
            acts.observe(self._book, in_ray, self._untold)
            self._untold = ()
            is_paused = let_end(self._book).pause is not None
            if is_paused and not decided.plan.is_silent:
                self.outcome.refusals["paused"] += 1
            elif self._book.mode is Mode.ENFORCE and taking is None and not self.outcome.lead:
                carried = acts.carry_out(self._book, decided.plan)
                self.outcome.orders += carried.changed
                for node, why in carried.refused.items():
                    self.outcome.refusals["order_bounds"] += 1
                    log.debug("order.refused", node=node, error=why)
        except LedgerFailed as error:
            if not self.outcome.ledger_failed:
                log.error("ledger.failed", error=str(error))  # noqa: TRY400  the message says it all
            self.outcome.ledger_failed = str(error)
        else:
            if self.outcome.ledger_failed:
                log.info("ledger.recovered")
            self.outcome.ledger_failed = ""
        self.outcome.refusals.update(refusal.rule for refusal in decided.plan.refusals)

    def _show(self, decided: Decided) -> None:
        now = self._clock.now()
        if not self.outcome.has_term:
            return
        self._publisher.offer_lagging(self._book.herd.names, self._book.inventory, now=now)
        self._publisher.tell_roster(self._book.herd.names)
        self._publisher.tell_state(
            mode=self._book.mode.value,
            decision=summary(decided.plan),
            wall=decided.wall,
        )
