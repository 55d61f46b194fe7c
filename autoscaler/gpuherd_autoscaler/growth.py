"""Which nodes to ask to serve: for demand, for the minimum, for spares, and in place of the sick. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuherd.names import NodeName, PoolName
from gpuherd.ray import Gang, RayStatus, Shape
from gpuherd_autoscaler.demand import Demand, gang_words, words
from gpuherd_autoscaler.fleet import STANDBY_TIER, Fleet, preference
from gpuherd_autoscaler.packing import Bin, Packing, can_take, opens_gpu_nodes, pack
from gpuherd_autoscaler.plan import Refusal, Replacement
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.room import Asked, Room, exceeds_quota, room, rooms, within_quota
from gpuherd_autoscaler.standing import BOUNDED, COUNTED, REPLACEABLE, Member, Standing, promised

_CANDIDATES = (Standing.RELEASED, Standing.STANDBY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Nodes to ask to serve with the reason, and the serving nodes that demand is planned on."""

    serve: Mapping[NodeName, str]
    used: frozenset[str]
    reserved: frozenset[str]
    """Nodes that ``request_resources()`` asks for, busy or not."""
    refusals: tuple[Refusal, ...]


@dataclass(slots=True)
class _Chosen:
    """The choice while it is made; never more of a pool than it has room for."""

    fleet: Fleet
    serve: dict[NodeName, str] = field(default_factory=dict)
    asked: Asked = field(default_factory=Asked)
    refusals: list[Refusal] = field(default_factory=list)

    def room(self, pool: Pool, member: Member | None = None) -> Room:
        """Return the room for one more: for this member, else for one that has to start."""
        is_start = member is None or member.standing is not Standing.RELEASED
        return room(self.fleet, pool, self.asked, is_start=is_start)

    def count(self, pool: Pool) -> int:
        return self.asked.nodes.get(pool.name, 0)

    def ask(self, member: Member, pool: Pool, why: str) -> None:
        self.serve[member.node.name] = why
        self.asked.add(pool.name, is_start=member.standing is not Standing.RELEASED)

    def candidates(self, pool: Pool) -> list[Member]:
        """Return who could be asked next: the released first, then the sound, then by name."""
        able = [m for m in self.fleet.of(pool) if m.standing in _CANDIDATES and m.node.name not in self.serve]
        return sorted(able, key=lambda m: (m.standing is Standing.STANDBY, preference(m), m.node.name))

    def take(self, pool: Pool, wanted: int, why: str, *, rule: str) -> None:
        """Ask ``wanted`` more nodes of the pool; what cannot be had is refused with its rule."""
        short = wanted
        for member in self.candidates(pool):
            if short <= 0:
                break
            if self.room(pool, member).nodes > 0:
                self.ask(member, pool, why)
                short -= 1
        if short > 0:
            left = self.room(pool)
            limit, cause = (
                (left.rule, f"it is at {left.words}")
                if left.nodes <= 0
                else ("candidates", "it has no sound node on standby")
            )
            text = f"pool {pool.name} wants {short} more for its {rule}, and {cause}"
            self.refusals.append(Refusal(rule=limit, figure=float(short), text=text, pool=pool.name))


def grow(fleet: Fleet, demand: Demand) -> Growth:
    """Return whom to ask to serve, at most ``max`` of each pool."""
    chosen = _Chosen(fleet=fleet)
    packing = _for_demand(chosen, demand)
    reserved = _for_requested(chosen, demand)
    _take_back_busy(chosen)
    for pool in fleet.pools.values():
        _for_minimum(chosen, pool)
        _for_triggers(chosen, pool)
        if not fleet.frozen:
            _for_spares(chosen, pool, packing)
    return Growth(
        serve=dict(sorted(chosen.serve.items())),
        used=frozenset(packing.placed) | frozenset(chosen.serve) | reserved,
        reserved=reserved,
        refusals=tuple(chosen.refusals),
    )


def _for_demand(chosen: _Chosen, demand: Demand) -> Packing:
    """Ask for what demand needs beyond what is free and on its way.

    Demand must have lasted two polls to start a node, except that a fleet without any gets its first at
    once, and that a released node which has not drained yet costs nothing to keep.
    """
    fleet = chosen.fleet
    bins = tuple(fleet.bins())
    free = rooms(fleet, chosen.asked)
    placed = _packed(chosen, demand, bins, free)
    if exceeds_quota(fleet, opened := _opened(placed, bins)):
        free = within_quota(fleet, chosen.asked, opened)
        placed = _packed(chosen, demand, bins, free)
    _open(chosen, placed, bins)
    there = tuple(b for b in bins if b.tier < STANDBY_TIER)
    _open(chosen, pack(demand.pending, there, room=free, gangs=demand.gangs), there)
    chosen.refusals.extend(_unmet_gang(chosen, gang) for gang in placed.left_gangs)
    chosen.refusals.extend(_unmet(chosen, placed.left))
    is_empty = not any(m.standing in BOUNDED or m.standing is Standing.RELEASED for m in fleet.members)
    if is_empty and not chosen.serve:
        _open(chosen, pack(demand.pending, bins, room=dict.fromkeys(free, 1)), bins, most=1)
    passing = sum(s.count for s in demand.pending) - sum(s.count for s in demand.lasting)
    if passing > 0:
        text = (
            f"{passing} pending requests were told by one poll only; they count when the next tells them too"
        )
        chosen.refusals.append(Refusal(rule="first_poll", figure=float(passing), text=text))
    return placed


def _opened(packing: Packing, bins: Sequence[Bin]) -> Mapping[PoolName, int]:
    """Return how many nodes of each pool the packing opens."""
    return Counter(PoolName(b.group) for b in bins if b.opens and b.name in packing.placed)


def _packed(chosen: _Chosen, demand: Demand, bins: Sequence[Bin], room: Mapping[str, int]) -> Packing:
    """Pack gangs and the requests that last; no node starts for a gang that small requests would starve.

    Ray serves single requests before a group, so a node that comes for a group is soon full of them. Unless
    these find room elsewhere too, the group waits for its turn and is told as contended.
    """
    placed = pack(demand.lasting, bins, room=room, gangs=demand.gangs)
    opening = {b.name: b for b in bins if b.opens}
    started = [opening[name] for name in placed.gang_bins if name in opening]
    rivals = [shape for shape in placed.left if any(can_take(b.free, shape) for b in started)]
    if not rivals:
        return placed
    for gang in demand.gangs:
        text = (
            f"{gang_words(gang)} waits: pending {words(rivals)} would take its nodes, and no more may start"
        )
        chosen.refusals.append(Refusal(rule="contended", figure=float(gang.size), text=text))
    return pack(demand.lasting, bins, room=room)


def _unmet_gang(chosen: _Chosen, gang: Gang) -> Refusal:
    bounds = [(pool, chosen.room(pool)) for pool in chosen.fleet.pools.values()]
    told = ", ".join(f"{p.name} may start {left.nodes} up to {left.words}" for p, left in bounds)
    text = f"{gang_words(gang)} waits: its nodes are not all to be had; {told}"
    return Refusal(rule="gang", figure=float(gang.size), text=text)


def _for_requested(chosen: _Chosen, demand: Demand) -> frozenset[str]:
    """Ask for the nodes that ``request_resources()`` needs beyond those there, and return all it needs."""
    if not demand.requested:
        return frozenset()
    fleet = chosen.fleet
    bins = tuple(replace(b, opens=False) if b.name in chosen.serve else b for b in fleet.whole_bins())
    placed = pack(demand.requested, bins, room=rooms(fleet, chosen.asked))
    _open(chosen, placed, bins)
    chosen.refusals.extend(_unmet(chosen, placed.left))
    return frozenset(placed.placed)


def _open(chosen: _Chosen, packing: Packing, bins: Sequence[Bin], *, most: int | None = None) -> None:
    """Ask the nodes that the packing opened, at most ``most``, as far as their pools have room."""
    group = {b.name: PoolName(b.group) for b in bins if b.opens}
    opened = [name for name in packing.placed if name in group and name not in chosen.serve]
    for name in opened[:most]:
        pool = chosen.fleet.pools[group[name]]
        member = chosen.fleet.by_name[NodeName(name)]
        if chosen.room(pool, member).nodes > 0:
            chosen.ask(member, pool, f"for pending {words(packing.placed[name])}")


def _unmet(chosen: _Chosen, left: tuple[Shape, ...]) -> Iterator[Refusal]:
    for shape in left:
        able = [pool for pool in chosen.fleet.pools.values() if can_take(promised(pool), shape)]
        allowed = [p for p in able if p.gpus_per_node == 0 or opens_gpu_nodes(shape)]
        full = [(p, bound) for p in allowed if (bound := chosen.room(p)).nodes <= 0]
        what, figure = words((shape,)), float(shape.count)
        if able and not allowed:
            yield Refusal(rule="no_gpu_asked", figure=figure, text=f"{what}: no GPU node is started for it")
        elif allowed and len(full) == len(allowed):
            limits = ", ".join(f"{p.name} is at {bound.words}" for p, bound in full)
            pool, first = full[0]
            yield Refusal(rule=first.rule, figure=figure, text=f"{what} waits: {limits}", pool=pool.name)
        else:
            text = f"{what} waits: no sound node on standby could take it"
            yield Refusal(rule="candidates", figure=figure, text=text)


def _take_back_busy(chosen: _Chosen) -> None:
    """Ask a released node to serve again when work runs there: Ray would refuse to let it go."""
    for member in chosen.fleet.members:
        ray, pool = member.node.ray, chosen.fleet.pool_of(member)
        is_busy = chosen.fleet.sight is not None and ray is not None and ray.status is RayStatus.RUNNING
        is_released = member.standing is Standing.RELEASED and member.node.name not in chosen.serve
        if is_released and is_busy and chosen.room(pool, member).nodes > 0:
            chosen.ask(member, pool, "work came back before it drained")


def _for_minimum(chosen: _Chosen, pool: Pool) -> None:
    """Fill up to ``min``. While frozen a lost node counts: its loss may be our own blindness."""
    counted = COUNTED | {Standing.SILENT} if chosen.fleet.frozen else COUNTED
    have = sum(m.standing in counted for m in chosen.fleet.of(pool)) + chosen.count(pool)
    if have < pool.floor:
        chosen.take(
            pool, pool.floor - have, f"pool {pool.name} has {chosen.fleet.min_words(pool)}", rule="min"
        )


def _for_triggers(chosen: _Chosen, pool: Pool) -> None:
    """Fill up to what a trigger asks for; a lost node counts while frozen, as for ``min``."""
    ask = chosen.fleet.ask(pool)
    counted = COUNTED | {Standing.SILENT} if chosen.fleet.frozen else COUNTED
    have = sum(m.standing in counted for m in chosen.fleet.of(pool)) + chosen.count(pool)
    if have < ask.nodes:
        chosen.take(pool, ask.nodes - have, ask.why, rule="trigger")


def _for_spares(chosen: _Chosen, pool: Pool, packing: Packing) -> None:
    wanted = chosen.fleet.spares(pool)
    if wanted == 0:
        return
    spare = sum(is_spare(chosen.fleet, m, packing.placed) for m in chosen.fleet.of(pool))
    spare += sum(
        m.node.name in chosen.serve and m.node.name not in packing.placed for m in chosen.fleet.of(pool)
    )
    if spare < wanted:
        why = f"pool {pool.name} keeps {wanted} warm spares"
        chosen.take(pool, wanted - spare, why, rule="warm spares")


def is_spare(fleet: Fleet, member: Member, used: Mapping[str, object] | frozenset[str]) -> bool:
    """Say whether the node is there, or nearly, and neither work nor demand is on it."""
    if member.node.name in used:
        return False
    if member.standing is Standing.SERVING and fleet.sight is not None:
        return member.node.ray is not None and member.node.ray.status is RayStatus.IDLE
    return member.standing is Standing.BOOTING


def replacements(fleet: Fleet, serve: Mapping[NodeName, str]) -> tuple[Replacement, ...]:
    """Pair each node that is asked and does not count with one turned on in its pool, both by name."""
    pairs = []
    for pool in fleet.pools.values():
        gone = [m for m in fleet.of(pool) if m.node.serve and m.standing in REPLACEABLE]
        fresh = [m for m in fleet.of(pool) if m.node.name in serve and m.standing is Standing.STANDBY]
        pairs += [
            Replacement(node=old.node.name, by=new.node.name, reason=old.why)
            for old, new in zip(gone, fresh, strict=False)
        ]
    return tuple(pairs)
