"""The steward carries out what policy decides: saves first, acts one at a time, learns the outcome.

A shell: every ``if`` about the domain is in policy, conclude or orders.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpuherd.errors import HeadUnreachable
from gpuherd.health import Finding, Verdict
from gpuherd.names import GpuUuid, RayNodeId
from gpuherd.preflight import Preflight
from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd_agent import fitness, moves, policy, shrink
from gpuherd_agent.acts import (
    Act,
    Drain,
    Drained,
    Look,
    Looked,
    Outcome,
    Release,
    Released,
    Start,
    Started,
    StartFailed,
    Stop,
    Stopped,
    Verified,
    Verify,
)
from gpuherd_agent.conclude import conclude
from gpuherd_agent.doors import HeadDoor, HooksDoor, Identity, JoinFailed, RayletDoor
from gpuherd_agent.gate import Gate, Occasion, Subject
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.sightings import boards
from gpuherd_agent.state_document import gpus
from gpuherd_agent.station import Facts, Rules, Station, Step
from gpuherd_agent.store import Store, StoreFailed

STEP_S: Final = 1.0
PRE_DRAIN: Final = "pre-drain"
POST_LEAVE: Final = "post-leave"
_CHAIN: Final = 8
"""Steps in a row without waiting: a phase may follow another at once, and a mistake must not spin."""

log = logs.get("gpuherd.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What sensing knows now."""

    snapshot: Snapshot
    verdict: Verdict
    latched: tuple[Finding, ...] = ()
    kernel_position: int | None = None
    """Where the kernel log was read to when it last told something."""


@dataclass(slots=True, kw_only=True)
class Doors:
    """The outside as the steward needs it."""

    clock: Clock
    rng: random.Random
    raylets: RayletDoor
    heads: HeadDoor
    store: Store
    gate: Gate
    hooks: HooksDoor | None = None


class Steward:
    """Holds station and memory; everybody else reads them and hands in changes by ``remember``."""

    def __init__(
        self,
        *,
        identity: Identity,
        rules: Rules,
        doors: Doors,
        health: Callable[[], Health],
        tell: Callable[[str, str], None],
    ) -> None:
        """``health`` is read at each step; ``tell`` gets (kind, reason) of everything that happens."""
        self.memory: NodeMemory = msgspec.structs.replace(doors.store.load(), epoch=identity.epoch)
        self.station = Station(since=doors.clock.now())
        self.stepped_at = doors.clock.now()
        self._identity = identity
        self._rules = rules
        self._doors = doors
        self.health = health
        self._tell = tell
        self._wake = asyncio.Event()
        self._outcomes: list[tuple[Act, Outcome]] = []
        self._disk_failed = ""

    def wake(self) -> None:
        """Make the next step now instead of within a second."""
        self._wake.set()

    def remember(self, memory: NodeMemory) -> bool:
        """Store a changed memory and wake; False = the disk refused, and nothing has changed."""
        if memory == self.memory:
            return True
        if not self._save(memory):
            return False
        self.memory = memory
        self.wake()
        return True

    async def run(self) -> None:
        """Find a raylet of ours, then step for ever; cancel to stop. Ray is left as it is."""
        self._save(self.memory)
        found = await self._doors.raylets.find(self.memory.raylet)
        self.remember(msgspec.structs.replace(self.memory, raylet=found))
        async with asyncio.TaskGroup() as group:
            while True:
                for _ in range(_CHAIN):
                    if not self._step(group):
                        break
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(STEP_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _step(self, group: asyncio.TaskGroup) -> bool:
        """Make one step; True = something changed, so that another may follow at once."""
        facts = self._facts()
        self.stepped_at = facts.now
        if not self._outcomes:
            return self._adopt(policy.step(self.station, self.memory, facts, self._rules), group)
        act, outcome = self._outcomes[0]
        if act != self.station.under_way:
            self._outcomes.pop(0)
            return True
        # An outcome is only forgotten once what it led to is on disk.
        kept = self._adopt(conclude(self.station, self.memory, outcome, facts), group)
        if kept:
            self._outcomes.pop(0)
        return kept

    def _adopt(self, step: Step, group: asyncio.TaskGroup) -> bool:
        if step.memory != self.memory and not self._save(step.memory):
            return False
        changed = (step.station, step.memory) != (self.station, self.memory)
        if step.station.phase is not self.station.phase:
            log.info(
                "phase.changed",
                before=self.station.phase.value,
                phase=step.station.phase.value,
                reason=step.station.reason,
            )
        self.station, self.memory = step.station, step.memory
        for kind, reason in step.news:
            self._tell(kind, reason)
        if step.act is not None:
            group.create_task(self._carry_out(step.act))
        return changed

    def _save(self, memory: NodeMemory) -> bool:
        try:
            self._doors.store.save(memory)
        except StoreFailed as error:
            if str(error) != self._disk_failed:
                log.error("store.failed", error=str(error))  # noqa: TRY400  an expected failure, no traceback
            self._disk_failed = str(error)
            return False
        self._disk_failed = ""
        return True

    def _facts(self) -> Facts:
        clock, health = self._doors.clock, self.health()
        listed = gpus(health.snapshot, health.verdict)
        raylet = self.memory.raylet
        healthy = self._startable()
        return Facts(
            now=clock.now(),
            boot_s=clock.boot_s(),
            wall=clock.wall(),
            boot_id=self._identity.boot_id,
            fresh_id=RayNodeId(f"{self._doors.rng.getrandbits(224):056x}"),
            verdict=self._concerning(healthy, health.verdict),
            latched=health.latched,
            kernel_position=health.kernel_position,
            boards=boards(health.snapshot, self.memory.boards),
            present=tuple(g.uuid for g in listed if g.present),
            healthy=healthy,
            gpu_model=shrink.model_label([g.model for g in listed if g.healthy]),
            raylet_alive=raylet is not None and self._doors.raylets.is_alive(raylet),
        )

    def verdict(self) -> Verdict:
        """Return the verdict on the node with the GPUs that it offers."""
        return self._concerning(self._startable(), self.health().verdict)

    def _startable(self) -> tuple[GpuUuid, ...]:
        """Return the GPUs that serve or that a raylet started now would offer.

        One that would not pass a join is left out, as long as enough others would.
        """
        health, raylet = self.health(), self.memory.raylet
        good = tuple(g.uuid for g in gpus(health.snapshot, health.verdict) if g.healthy)
        serving = frozenset(good if raylet is not None and not raylet.offered else ())
        serving = frozenset(raylet.offered) if raylet is not None and raylet.offered else serving
        unfit = fitness.unfit(health.snapshot, [g for g in good if g not in serving], self.memory)
        fit = tuple(g for g in good if g not in unfit)
        enough = shrink.worthwhile(fit, declared=self._rules.declared, min_ratio=self._rules.shrink_min_ratio)
        return fit if enough else good

    def _concerning(self, healthy: Sequence[GpuUuid], verdict: Verdict) -> Verdict:
        offered = shrink.offered(
            self.memory.raylet,
            healthy,
            declared=self._rules.declared,
            min_ratio=self._rules.shrink_min_ratio,
        )
        return shrink.concerning(verdict, offered)

    async def _carry_out(self, act: Act) -> None:
        outcome = await self._outcome(act)
        self._outcomes.append((act, outcome))
        self.wake()

    async def _outcome(self, act: Act) -> Outcome:
        match act:
            case Verify():
                return await self._verify(act)
            case Start():
                try:
                    return Started(raylet=await self._doors.raylets.start(act.order))
                except JoinFailed as error:
                    return StartFailed(code=error.code, detail=error.detail)
            case Look():
                return await self._look(act)
            case Drain():
                await self._hook(PRE_DRAIN, act.order.message)
                return Drained(answer=await self._doors.heads.drain(act.order))
            case Stop():
                clean = await self._doors.raylets.stop(act.raylet, grace_s=self._rules.stop_grace_s)
                if clean:
                    await self._hook(POST_LEAVE, self.station.reason)
                return Stopped(clean=clean)
            case Release():
                return Released(done=await self._doors.heads.release(act.head, act.pool))

    async def _look(self, act: Look) -> Looked:
        raylet = self.memory.raylet
        work = None if raylet is None else self._doors.raylets.work(raylet)
        try:
            return Looked(reachable=True, node=await self._doors.heads.node(act.head, act.node_id), work=work)
        except HeadUnreachable:
            return Looked(reachable=False)

    async def _hook(self, name: str, reason: str) -> None:
        """Tell the site of a step; whatever its hook says, the step goes on."""
        if self._doors.hooks is not None:
            await self._doors.hooks.run(name, {"reason": reason, "phase": self.station.phase.value})

    async def check(self, *, is_quiet: bool = False) -> Preflight:
        """Return every check of a join; ``is_quiet`` = no GPU is put to work and no hook is run."""
        head = moves.head(self.memory, self._rules, self.station.head_turn)
        return await self._check(head, Occasion.REPORT, is_quiet=is_quiet)

    async def _verify(self, act: Verify) -> Verified:
        if not act.is_rehearsal:
            return Verified(preflight=await self._check(act.head, Occasion.JOIN))
        probe = self.health().snapshot.probe
        is_used = probe is not None and any(gpu.pids for gpu in probe.gpus)
        is_quiet = self.memory.orders is None or bool(self.memory.holds) or is_used
        return Verified(preflight=await self._check(act.head, Occasion.REHEARSAL, is_quiet=is_quiet))

    async def _check(self, head: str, occasion: Occasion, *, is_quiet: bool = False) -> Preflight:
        subject = Subject(
            snapshot=self.health().snapshot,
            verdict=self.verdict(),
            good=self._startable(),
            of_gpus=self.health().verdict,
            memory=self.memory,
        )
        return await self._doors.gate.check(head, subject, occasion=occasion, is_quiet=is_quiet)
