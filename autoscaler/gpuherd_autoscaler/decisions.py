"""Decisions as they are kept: equal ones in a row are one record that counts. Pure.

Two decisions are equal when they ask, refuse and count the same; words that tick, such as "idle for 35 s", do
not make a new one.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Final

from gpuherd_autoscaler import plan as plans
from gpuherd_autoscaler import snapshot as snapshots
from gpuherd_autoscaler.ledger import Mode
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import Snapshot

FLUSH_S: Final = 60.0
"""How long a repeated decision may wait until its count is written: each write costs a sync of the disk."""
_MAX_BODY: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision, made ``times`` in a row from ``at`` to ``last_at`` (wall-clock seconds).

    ``plan`` and ``inputs`` are compressed JSON: what was decided with every reason, and the snapshot that it
    was decided on, both of the first time. ``id`` 0 = not written yet.
    """

    id: int = 0
    at: float
    last_at: float
    times: int
    term: int
    mode: Mode
    words: str
    plan: bytes
    inputs: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The newest decision, what it asked, and when it was written last."""

    newest: Decision | None = None
    essence: object = None
    written_at: float = 0.0


def repeats(log: Log, plan: Plan, *, term: int, mode: Mode) -> bool:
    """Say whether the decision is the newest one made again."""
    return log.newest is not None and log.essence == (term, mode, essence_of(plan))


def begin(decision: Decision, plan: Plan) -> Log:
    """Return the log after a new decision, which is to be written."""
    essence = (decision.term, decision.mode, essence_of(plan))
    return Log(newest=decision, essence=essence, written_at=decision.at)


def again(log: Log, newest: Decision, *, wall: float) -> tuple[Log, Decision | None]:
    """Return the log after its newest decision was made again, and its raised count if that is due."""
    counted = replace(newest, last_at=wall, times=newest.times + 1)
    if wall - log.written_at < FLUSH_S:
        return replace(log, newest=counted), None
    return replace(log, newest=counted, written_at=wall), counted


def numbered(log: Log, number: int) -> Log:
    """Return the log after its newest record was written under this number."""
    return log if log.newest is None else replace(log, newest=replace(log.newest, id=number))


def essence_of(plan: Plan) -> object:
    """Return what makes a decision another one."""
    return (
        tuple(sorted(plan.serve)),
        tuple(sorted(plan.release)),
        plan.replace,
        tuple(sorted((r.rule, r.pool or "") for r in plan.refusals)),
        plan.demand,
        plan.demand_known,
        plan.infeasible,
        plan.frozen.partition(":")[0],
        plan.pools,
    )


def pack_plan(plan: Plan) -> bytes:
    """Return the plan as it is kept."""
    return zlib.compress(plans.encode(plan))


def pack_inputs(snapshot: Snapshot) -> bytes:
    """Return the snapshot as it is kept."""
    return zlib.compress(snapshots.encode(snapshot))


def plan_of(decision: Decision) -> Plan:
    """Return the plan of a kept decision; raises ValueError for one that is damaged."""
    return plans.decode(_unpacked(decision.plan))


def inputs_of(decision: Decision) -> Snapshot:
    """Return the snapshot of a kept decision; raises ValueError for one that is damaged."""
    return snapshots.decode(_unpacked(decision.inputs))


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(packed, _MAX_BODY)
    except zlib.error as error:
        raise ValueError(f"a kept decision is damaged: {error}") from error
