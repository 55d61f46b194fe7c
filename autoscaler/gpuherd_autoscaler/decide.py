"""The decision: a pure function of snapshot, memory and limits.

It asks and explains; whether its plan is carried out is not its business, and neither is who leads.
"""

from collections.abc import Iterator, Mapping

from gpuherd.names import NodeName
from gpuherd_autoscaler import clocks, guards, standing
from gpuherd_autoscaler.asks import ask_of
from gpuherd_autoscaler.demand import Demand, read, words
from gpuherd_autoscaler.fleet import Fleet
from gpuherd_autoscaler.growth import Growth, grow, replacements
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan, PoolFigures, Refusal
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.shrink import Shrinking, shrink
from gpuherd_autoscaler.snapshot import Snapshot
from gpuherd_autoscaler.standing import BOUNDED, Member, Standing


def decide(snapshot: Snapshot, memory: Memory, limits: Limits, now: float) -> tuple[Plan, Memory]:
    """Return what to ask of the nodes and what to remember for the next decision.

    Missing data holds or raises, it never lowers. Deterministic: equal arguments give equal bytes.
    """
    pools = {pool.name: pool.sized(snapshot.wishes) for pool in sorted(limits.pools, key=lambda p: p.name)}
    moved = clocks.observe(guards.watch(memory, snapshot, limits, now), snapshot, limits, now)
    sight = snapshot.cluster.fresh
    members = tuple(
        standing.judge(node, pools[node.pool], moved, limits, head_is_fresh=sight is not None)
        for _, node in sorted(snapshot.nodes.items())
        if node.pool in pools
    )
    moved = guards.settle(moved, members)
    fleet = Fleet(
        members=members,
        pools=pools,
        sight=sight,
        memory=moved,
        limits=limits,
        now=now,
        frozen=guards.forbids(moved, limits, now),
        asks=ask_of(limits.triggers, snapshot.triggers),
        wishes=snapshot.wishes,
        open_windows=None if snapshot.open_windows.value is None else frozenset(snapshot.open_windows.value),
    )
    demand = read(moved, sight, limits.pools, waits=_waits(snapshot, limits))
    growth = grow(fleet, demand)
    return _plan(fleet, demand, growth, shrink(fleet, demand, growth)), moved


def _waits(snapshot: Snapshot, limits: Limits) -> str:
    """Return the resource whose requests wait for their window now, or an empty string."""
    wanted = limits.deferrable
    is_shut = bool(wanted.window) and wanted.window not in (snapshot.open_windows.value or ())
    return wanted.resource if is_shut else ""


def _plan(fleet: Fleet, demand: Demand, growth: Growth, shrinking: Shrinking) -> Plan:
    acted = {**growth.serve, **shrinking.release}
    return Plan(
        serve=tuple(growth.serve),
        release=tuple(shrinking.release),
        reasons=dict(sorted(acted.items())),
        kept=_kept(fleet, acted, shrinking.stay),
        replace=replacements(fleet, growth.serve),
        refusals=(*_deferred(fleet, demand), *growth.refusals, *shrinking.refusals),
        demand=demand.told,
        demand_known=fleet.sight is not None,
        infeasible=demand.infeasible,
        frozen=fleet.frozen,
        pools=tuple(_figures(fleet, pool, growth, shrinking) for pool in fleet.pools.values()),
    )


def _deferred(fleet: Fleet, demand: Demand) -> Iterator[Refusal]:
    count = sum(shape.count for shape in demand.deferred)
    if count:
        window = fleet.limits.deferrable.window
        text = f"{words(demand.deferred)} can wait, and its window {window} is not open"
        yield Refusal(rule="deferrable", figure=float(count), text=text)


def _kept(fleet: Fleet, acted: Mapping[NodeName, str], stay: Mapping[NodeName, str]) -> dict[NodeName, str]:
    return {
        m.node.name: stay.get(m.node.name) or _rests(m) for m in fleet.members if m.node.name not in acted
    }


def _rests(member: Member) -> str:
    text = {
        Standing.STANDBY: "on standby, no demand needs it",
        Standing.RELEASED: "released, leaves when Ray finds it idle",
    }.get(member.standing, member.why)
    return text or str(member.standing)


def _figures(fleet: Fleet, pool: Pool, growth: Growth, shrinking: Shrinking) -> PoolFigures:
    members = fleet.of(pool)
    asked = {m.node.name for m in members if m.standing in BOUNDED}
    grown = {m.node.name for m in members if m.node.name in growth.serve}
    return PoolFigures(
        pool=pool.name,
        listed=len(members),
        serving=sum(m.standing in (Standing.SERVING, Standing.UNSURE) for m in members),
        booting=sum(m.standing is Standing.BOOTING for m in members),
        leaving=sum(m.is_leaving for m in members),
        barred=sum(m.standing is Standing.BARRED for m in members),
        min=pool.floor,
        max=pool.ceiling,
        wanted=len((asked | grown) - set(shrinking.release)),
    )
