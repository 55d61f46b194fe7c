"""The fleet as Prometheus text. Pure: a scrape reads what the last decision left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuherd import exposition
from gpuherd.exposition import Sample, known
from gpuherd.gossip.verdicts import Verdict
from gpuherd.phases import Lifecycle
from gpuherd.rest import Fleet
from gpuherd_autoscaler.ledger import Mode
from gpuherd_autoscaler.metrics_catalog import METRICS
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import GossipSight, Sourced

_KINDS: Final = ("listed", "serving", "booting", "leaving", "barred", "min", "max", "wanted")
"""Fields of ``PoolFigures``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerFacts:
    """What there is to export; the mappings count by rule and by reason."""

    fleet: Fleet
    decision_s: float | None
    decisions: int
    ledger_writable: bool
    orders: int
    refusals: Mapping[str, int]
    dropped: Mapping[str, int]
    plan: Plan | None = None
    triggers: Mapping[str, Sourced[int]] = field(default_factory=dict)
    gossip: GossipSight | None = None
    """None = the autoscaler does not hear it now."""


def render(facts: ScalerFacts) -> bytes:
    """Return the page of these facts."""
    return exposition.render(METRICS, samples(facts))


def samples(facts: ScalerFacts) -> Iterator[Sample]:
    """Yield every series these facts have."""
    fleet = facts.fleet
    yield Sample("gpuherd_scaler_build_info", 1, (fleet.version,))
    yield Sample("gpuherd_scaler_term", fleet.term)
    for mode in Mode:
        yield Sample("gpuherd_scaler_mode", mode.value == fleet.mode, (mode.value,))
    if fleet.decided_at is not None:
        yield Sample("gpuherd_scaler_leading", not fleet.lead)
    yield Sample("gpuherd_scaler_frozen", bool(fleet.frozen))
    yield Sample("gpuherd_scaler_paused", fleet.wishes.pause is not None)
    yield Sample("gpuherd_scaler_broker_connected", fleet.broker_connected)
    yield from known("gpuherd_scaler_head_reachable", fleet.head_reachable)
    yield Sample("gpuherd_scaler_ledger_writable", facts.ledger_writable)
    for lifecycle in Lifecycle:
        count = fleet.by_lifecycle.get(lifecycle.value, 0)
        yield Sample("gpuherd_scaler_nodes", count, (lifecycle.value,))
    yield Sample("gpuherd_scaler_gpus_declared", fleet.gpus_declared)
    yield Sample("gpuherd_scaler_gpus_counted", fleet.gpus_counted)
    yield Sample("gpuherd_scaler_gpus_healthy", fleet.gpus_healthy)
    yield Sample("gpuherd_scaler_gpus_serving", fleet.gpus_serving)
    yield Sample("gpuherd_scaler_pending_requests", sum(shape.count for shape in fleet.demand))
    if facts.plan is not None:
        yield from _planned(facts.plan)
    yield from known("gpuherd_scaler_decision_seconds", facts.decision_s)
    for name, reading in sorted(facts.triggers.items()):
        yield from known("gpuherd_scaler_trigger_nodes", reading.value, (name,))
        yield Sample("gpuherd_scaler_trigger_up", reading.fresh is not None, (name,))
    if facts.gossip is not None:
        words = list(facts.gossip.verdicts.values())
        for verdict in Verdict:
            yield Sample("gpuherd_scaler_gossip_members", words.count(verdict.value), (verdict.value,))
        yield Sample("gpuherd_scaler_gossip_expected", facts.gossip.expected)
        yield Sample("gpuherd_scaler_gossip_sight", facts.gossip.sight)
    yield Sample("gpuherd_scaler_decisions_total", facts.decisions)
    yield Sample("gpuherd_scaler_orders_total", facts.orders)
    for rule, count in sorted(facts.refusals.items()):
        yield Sample("gpuherd_scaler_refusals_total", count, (rule,))
    for reason, count in sorted(facts.dropped.items()):
        yield Sample("gpuherd_scaler_documents_dropped_total", count, (reason,))


def _planned(plan: Plan) -> Iterator[Sample]:
    if plan.demand_known:
        yield Sample("gpuherd_scaler_infeasible_requests", sum(shape.count for shape in plan.infeasible))
    for pool in plan.pools:
        for kind in _KINDS:
            yield Sample("gpuherd_scaler_pool_nodes", getattr(pool, kind), (pool.pool, kind))
