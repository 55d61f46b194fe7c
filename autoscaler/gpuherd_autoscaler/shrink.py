"""Which nodes to ask no longer, and why each other serving node stays. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName
from gpuherd_autoscaler.demand import Demand, words
from gpuherd_autoscaler.disruption import Budget, Reason, budget
from gpuherd_autoscaler.fleet import Fleet
from gpuherd_autoscaler.growth import Growth, is_spare
from gpuherd_autoscaler.idleness import doubt
from gpuherd_autoscaler.packing import can_take
from gpuherd_autoscaler.plan import Refusal
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.standing import BOUNDED, Member, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """Nodes to release and nodes that could have been, each with the reason."""

    release: Mapping[NodeName, str]
    stay: Mapping[NodeName, str]
    refusals: tuple[Refusal, ...]


@dataclass(slots=True)
class _Pool:
    """One pool while victims are chosen: what may still go before a bound is met."""

    pool: Pool
    above_floor: int
    spares: int
    budgets: dict[Reason, Budget]
    leaving: int
    above_ceiling: int
    release: dict[NodeName, str] = field(default_factory=dict)
    stay: dict[NodeName, str] = field(default_factory=dict)
    held_back: Counter[Reason] = field(default_factory=Counter)

    @property
    def reason(self) -> Reason:
        """Return why one more would go now."""
        return Reason.ABOVE_MAX if self.above_ceiling > 0 else Reason.IDLE


def shrink(fleet: Fleet, demand: Demand, growth: Growth) -> Shrinking:
    """Choose victims: the unhealthy first, then the longest idle, ties by name."""
    release: dict[NodeName, str] = {}
    stay: dict[NodeName, str] = {}
    refusals = []
    for pool in fleet.pools.values():
        choice = _shrink_pool(fleet, pool, demand, growth)
        release |= choice.release
        stay |= choice.stay
        for reason, count in sorted(choice.held_back.items()):
            bound = choice.budgets[reason]
            text = f"{count} idle nodes of pool {pool.name} wait: {bound.words}"
            refusals.append(Refusal(rule=bound.rule, figure=float(bound.nodes), text=text, pool=pool.name))
    return Shrinking(release=dict(sorted(release.items())), stay=stay, refusals=tuple(refusals))


def _shrink_pool(fleet: Fleet, pool: Pool, demand: Demand, growth: Growth) -> _Pool:
    members = fleet.of(pool)
    healthy = sum(m.standing is Standing.SERVING for m in members)
    choice = _Pool(
        pool=pool,
        above_floor=healthy - fleet.floor(pool),
        spares=sum(is_spare(fleet, m, growth.used) for m in members) - fleet.spares(pool),
        budgets={
            reason: budget(pool, reason, fleet.limits.disruptions, fleet.open_windows) for reason in Reason
        },
        leaving=sum(m.is_leaving for m in members),
        above_ceiling=sum(m.standing in BOUNDED for m in members) - pool.ceiling,
    )
    grows = any(m.node.name in growth.serve for m in members)
    able: list[Member] = []
    for member in members:
        if not _could_go(member):
            continue
        why = _unfit_victim(fleet, member, demand, growth, choice)
        if not why and grows and member.standing is Standing.SERVING:
            why = "idle, and its pool grows"
        if why:
            choice.stay[member.node.name] = why
        else:
            able.append(member)
    for member in sorted(able, key=lambda m: _order(fleet, m)):
        _choose(fleet, member, choice)
    return choice


def _could_go(member: Member) -> bool:
    """A serving node, or one that stays outside on a hold: asked no longer it rests once it is well."""
    if member.standing is Standing.BARRED:
        return member.node.serve and not member.node.is_in_ray
    return member.standing is Standing.SERVING


def _order(fleet: Fleet, member: Member) -> tuple[bool, int, float, NodeName]:
    idle_s = fleet.idle_s(member.node.name) or 0.0
    name = member.node.name
    return member.standing is not Standing.BARRED, -member.node.severity.rank, -idle_s, name


def _unfit_victim(fleet: Fleet, member: Member, demand: Demand, growth: Growth, choice: _Pool) -> str:
    """Return why the node itself may not go now, or an empty string."""
    node, pool = member.node, choice.pool
    prefix = "" if member.standing is Standing.SERVING else f"{member.why}; "
    why_busy = doubt(node, head_is_fresh=fleet.sight is not None, limits=fleet.limits)
    if fleet.frozen:
        return f"{prefix}{fleet.frozen}"
    idle_s = fleet.idle_s(node.name)
    if why_busy or idle_s is None:
        return f"{prefix}not idle: {why_busy}"
    if blind := fleet.ask(pool).blind:
        return f"{prefix}idle, and {blind}"
    if node.name in growth.reserved:
        return f"{prefix}idle, and request_resources() asks for its room"
    if node.name in growth.used:
        return f"{prefix}idle, and pending demand is planned on it"
    free = node.ray.total if node.ray is not None else {}
    fitting = [shape for shape in demand.waiting if can_take(free, shape)]
    if fitting:
        return f"{prefix}idle, and pending {words(fitting)} would fit on it"
    if idle_s <= 0:
        return f"{prefix}idle, seen so for the first time"
    if idle_s < pool.idle_timeout_s and choice.above_ceiling <= 0:
        return f"{prefix}idle for {idle_s:.0f} of {pool.idle_timeout_s:g} s"
    turned_on_at = fleet.memory.turned_on_at.get(pool.name)
    if turned_on_at is not None and fleet.now - turned_on_at < pool.cooldown_s:
        left_s = pool.cooldown_s - (fleet.now - turned_on_at)
        return f"{prefix}idle, and its pool grew lately: {left_s:.0f} s to go"
    return ""


def _choose(fleet: Fleet, member: Member, choice: _Pool) -> None:
    """Release the node unless a bound of the pool is met; move the bounds on."""
    node, pool = member.node, choice.pool
    idle_s = fleet.idle_s(node.name) or 0.0
    if member.standing is Standing.BARRED:
        if choice.above_floor < 0:
            choice.stay[node.name] = f"{member.why}; its pool is below {fleet.min_words(pool)}"
        else:
            choice.release[node.name] = f"{member.why}; not needed now, rests once it is well"
    elif idle_s < pool.idle_timeout_s and choice.above_ceiling <= 0:
        choice.stay[node.name] = f"idle for {idle_s:.0f} of {pool.idle_timeout_s:g} s"
    elif choice.above_floor <= 0:
        choice.stay[node.name] = f"idle, and its pool would fall below {fleet.min_words(pool)}"
    elif choice.spares <= 0 and choice.above_ceiling <= 0:
        choice.stay[node.name] = f"idle, kept as one of {fleet.spares(pool)} warm spares"
    elif choice.leaving >= choice.budgets[choice.reason].nodes:
        choice.held_back[choice.reason] += 1
        choice.stay[node.name] = f"idle, and {choice.budgets[choice.reason].words}"
    else:
        is_above = choice.reason is Reason.ABOVE_MAX
        why = f"above {fleet.max_words(pool)}" if is_above else "no pending demand fits it"
        choice.release[node.name] = f"idle for {idle_s:.0f} s, {why}"
        choice.above_floor -= 1
        choice.spares -= 1
        choice.leaving += 1
        choice.above_ceiling -= 1
