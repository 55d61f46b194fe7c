"""Count-aware best fit of pending shapes on nodes: one pass per shape, no request handled singly.

Nodes in the same state are one class, so cost is O(shapes x classes), at worst O(shapes x nodes).
Best fit is a heuristic: in mixed cases one node more than the optimum may be opened. GPUs are counted
one by one: two halves of two GPUs are no whole one (Ray places a fraction on one GPU). Gangs come first,
each as a transaction: where one bundle finds no place, none is placed.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuherd.ray import Gang, Shape, Strategy
from gpuherd_autoscaler.memory import Resources

GPU: Final = "GPU"
BASIC: Final = frozenset({"CPU", "memory", "object_store_memory"})
"""What every host has; a shape of nothing else opens no GPU node."""

UNBOUNDED: Final = float("inf")
_ONE: Final = 10_000
"""Ray counts resources in steps of 1/10,000 (``FixedPoint``); integers keep sums exact."""
_ENDLESS: Final = 1 << 80

_Gpus = tuple[tuple[int, int], ...]
"""(free part of a GPU, how many GPUs have just that free), smallest part first."""
_State = tuple[int, bool, int, int, _Gpus, tuple[int, ...], str]
"""(tier, costs a start, rank, free GPU parts, GPUs, other resources, group): its order is best fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """What one node has free. Lower tiers are filled first, within a tier lower ranks.

    ``opens`` = using it costs one of the room of its group; it is used only once the opened are full.
    """

    name: str
    free: Mapping[str, float]
    tier: int = 0
    rank: int = 0
    group: str = ""
    opens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Where the requests went, in order of placement, and what found no place."""

    placed: Mapping[str, tuple[Shape, ...]]
    left: tuple[Shape, ...]
    left_gangs: tuple[Gang, ...] = ()
    """Gangs that could not be placed as a whole."""
    gang_bins: frozenset[str] = frozenset()
    """Bins that hold bundles of gangs."""


@dataclass(slots=True)
class _Need:
    """One shape in integer parts; ``rest`` holds (position, amount) of each resource beside GPUs."""

    gpu: int
    rest: tuple[tuple[int, int], ...]
    opens_gpu_nodes: bool


@dataclass(slots=True)
class _Floor:
    """The nodes while they are filled: names by state."""

    classes: dict[_State, list[str]]
    room: dict[str, int]
    placed: dict[str, list[Shape]] = field(default_factory=dict)

    def fill(self, shape: Shape, need: _Need) -> int:
        """Place as many of the shape's requests as fit and return how many are left."""
        left = shape.count
        for state in sorted(self.classes):
            if left == 0:
                break
            each = _fits(state, need) if _admits(state, need) else 0
            if each > 0:
                left -= self._fill_class(state, shape, need, min(each, left), left)
        return left

    def spread(self, shape: Shape, need: _Need, used: set[str]) -> int:
        """Place at most one request on a node, none on ``used`` ones; return how many are left."""
        left = shape.count
        for state in sorted(self.classes):
            if left == 0:
                break
            if not _admits(state, need) or _fits(state, need) < 1:
                continue
            names = self.classes[state]
            free = sorted(name for name in names if name not in used)
            chosen = free[: min(left, self.room.get(state[6], 0)) if state[1] else left]
            if not chosen:
                continue
            if state[1]:
                self.room[state[6]] -= len(chosen)
            used.update(chosen)
            taken = set(chosen)
            rest = [name for name in names if name not in taken]
            del self.classes[state]
            if rest:
                self.classes[state] = rest
            self._move(chosen, state, shape.resources, need, 1)
            left -= len(chosen)
        return left

    def copy(self) -> "_Floor":
        """Return a floor to go back to."""
        return _Floor(
            classes={state: list(names) for state, names in self.classes.items()},
            room=dict(self.room),
            placed={name: list(here) for name, here in self.placed.items()},
        )

    def _fill_class(self, state: _State, shape: Shape, need: _Need, each: int, left: int) -> int:
        names = self.classes[state]
        usable = min(len(names), self.room.get(state[6], 0)) if state[1] else len(names)
        if usable == 0:
            return 0
        full = min(usable, left // each)
        rest = min(left - full * each, each) if usable > full else 0
        used = full + (1 if rest else 0)
        if state[1]:
            self.room[state[6]] -= used
        names.sort()
        self._move(names[:full], state, shape.resources, need, each)
        if rest:
            self._move(names[full:used], state, shape.resources, need, rest)
        if used == len(names):
            del self.classes[state]
        else:
            self.classes[state] = names[used:]
        return full * each + rest

    def _move(self, names: list[str], state: _State, resources: Resources, need: _Need, count: int) -> None:
        if not names:
            return
        here = Shape(resources=resources, count=count)
        for name in names:
            self.placed.setdefault(name, []).append(here)
        self.classes.setdefault(_after(state, need, count), []).extend(names)


def pack(
    demand: Iterable[Shape], bins: Iterable[Bin], *, room: Mapping[str, int], gangs: Iterable[Gang] = ()
) -> Packing:
    """Place gangs, then the demand, hardest shapes first, opening at most ``room`` bins of each group.

    The order of demand and bins does not matter. A GPU node is not opened for a shape that asks for
    nothing but CPU and memory, though an opened one takes such requests too.
    """
    shapes = ordered(merged(demand))
    groups = sorted(gangs, key=_gang_hardness)
    asked = (*shapes, *(shape for gang in groups for shape in gang.shapes))
    others = sorted({name for shape in asked for name, _ in shape.resources if name != GPU})
    position = {name: i for i, name in enumerate(others)}
    classes: dict[_State, list[str]] = {}
    for each in bins:
        classes.setdefault(_state(each, others), []).append(each.name)
    floor = _Floor(classes=classes, room=dict(room))
    floor, left_gangs = _place_gangs(floor, groups, position)
    gang_bins = frozenset(floor.placed)
    left = []
    for shape in shapes:
        remaining = floor.fill(shape, _need(shape, position))
        if remaining:
            left.append(Shape(resources=shape.resources, count=remaining))
    return Packing(
        placed={name: tuple(here) for name, here in floor.placed.items()},
        left=tuple(left),
        left_gangs=left_gangs,
        gang_bins=gang_bins,
    )


def _place_gangs(
    floor: _Floor, gangs: Sequence[Gang], position: Mapping[str, int]
) -> tuple[_Floor, tuple[Gang, ...]]:
    """Return the floor with every gang that fits as a whole, and the others.

    Room only shrinks, so a gang like one that found no place is not tried again.
    """
    left: list[Gang] = []
    hopeless: set[tuple[Strategy, tuple[Shape, ...]]] = set()
    for gang in gangs:
        key = (gang.strategy, gang.shapes)
        before = floor.copy() if key not in hopeless else floor
        if key in hopeless or not _place_gang(floor, gang, position):
            hopeless.add(key)
            left.append(gang)
            floor = before
    return floor, tuple(left)


def _place_gang(floor: _Floor, gang: Gang, position: Mapping[str, int]) -> bool:
    """Place the gang and say whether all of it found a place; if not, the floor is of no more use."""
    used: set[str] = set()
    for shape in ordered(merged(units(gang))):
        need = _need(shape, position)
        is_apart = gang.strategy is Strategy.STRICT_SPREAD
        if floor.spread(shape, need, used) if is_apart else floor.fill(shape, need):
            return False
    return True


def units(gang: Gang) -> tuple[Shape, ...]:
    """Return what each must fit on one node: the bundles, or with STRICT_PACK their sum."""
    if gang.strategy is not Strategy.STRICT_PACK:
        return gang.shapes
    total: dict[str, float] = {}
    for shape in gang.shapes:
        for name, amount in shape.resources:
            total[name] = total.get(name, 0.0) + amount * shape.count
    return (Shape(resources=tuple(sorted(total.items()))),)


_STRICTEST_FIRST: Final = (Strategy.STRICT_SPREAD, Strategy.STRICT_PACK, Strategy.SPREAD, Strategy.PACK)


def _gang_hardness(gang: Gang) -> tuple[int, int, list[tuple[float, int, float, Resources]], str]:
    hardness = [_hardness(shape) for shape in ordered(gang.shapes)]
    return -gang.size, _STRICTEST_FIRST.index(gang.strategy), hardness, gang.details


def merged(demand: Iterable[Shape]) -> tuple[Shape, ...]:
    """Return each shape once with the sum of its counts, in a fixed order."""
    counts: dict[Resources, int] = {}
    for shape in demand:
        counts[shape.resources] = counts.get(shape.resources, 0) + shape.count
    return tuple(Shape(resources=key, count=counts[key]) for key in sorted(counts) if counts[key] > 0)


def ordered(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes hardest first: by GPUs, then by special resources, then by amounts."""
    return sorted(shapes, key=_hardness)


def _hardness(shape: Shape) -> tuple[float, int, float, Resources]:
    amounts = dict(shape.resources)
    special = sum(1 for name in amounts if name != GPU and name not in BASIC)
    return -amounts.get(GPU, 0.0), -special, -amounts.get("CPU", 0.0), shape.resources


def can_take(free: Mapping[str, float], shape: Shape) -> bool:
    """Say whether one request of the shape fits on a node with this much free."""
    return _can_take(tuple(sorted(free.items())), shape.resources)


@functools.lru_cache(maxsize=4_096)
def _can_take(free: Resources, resources: Resources) -> bool:
    alone = Shape(resources=resources, count=1)
    return not pack((alone,), (Bin(name="one", free=dict(free)),), room={}).left


def opens_gpu_nodes(shape: Shape) -> bool:
    """Say whether the shape asks for more than what a host without GPUs has."""
    return any(name not in BASIC and amount > 0 for name, amount in shape.resources)


def _parts(amount: float) -> int:
    return _ENDLESS if amount == UNBOUNDED else round(amount * _ONE)


def _need(shape: Shape, position: Mapping[str, int]) -> _Need:
    gpu = 0
    rest = []
    for name, amount in shape.resources:
        parts = _parts(amount)
        if name == GPU:
            # Ray takes more than one GPU in whole ones only; rounding up is the safe reading of others.
            gpu = parts if parts <= _ONE else -(-parts // _ONE) * _ONE
        elif parts > 0:
            rest.append((position[name], parts))
    return _Need(gpu=gpu, rest=tuple(rest), opens_gpu_nodes=opens_gpu_nodes(shape))


def _state(each: Bin, others: Sequence[str]) -> _State:
    parts = max(0, _parts(each.free.get(GPU, 0.0)))
    whole, part = divmod(parts, _ONE)
    gpus = ((part, 1),) * (part > 0) + ((_ONE, whole),) * (whole > 0)
    rest = tuple(_parts(each.free.get(name, 0.0)) for name in others)
    return each.tier, each.opens, each.rank, parts, gpus, rest, each.group


def _admits(state: _State, need: _Need) -> bool:
    """Say whether the state has the GPU parts, and may be opened if it would have to be."""
    return state[3] >= need.gpu and not (state[1] and state[3] > 0 and not need.opens_gpu_nodes)


def _fits(state: _State, need: _Need) -> int:
    most = _ENDLESS
    for i, amount in need.rest:
        most = min(most, state[5][i] // amount)
    if need.gpu >= _ONE:
        gpus = state[4]
        whole = gpus[-1][1] if gpus and gpus[-1][0] == _ONE else 0
        most = min(most, whole * _ONE // need.gpu)
    elif need.gpu > 0:
        most = min(most, sum(count * (part // need.gpu) for part, count in state[4]))
    return most


def _after(state: _State, need: _Need, count: int) -> _State:
    tier, _, rank, free, gpus, rest, group = state
    if need.gpu > 0:
        gpus = (
            _whole_taken(gpus, need.gpu, count) if need.gpu >= _ONE else _parts_taken(gpus, need.gpu, count)
        )
        free -= need.gpu * count
    if need.rest:
        remaining = list(rest)
        for i, amount in need.rest:
            if remaining[i] != _ENDLESS:
                remaining[i] -= amount * count
        rest = tuple(remaining)
    return tier, False, rank, free, gpus, rest, group


def _whole_taken(gpus: _Gpus, need: int, count: int) -> _Gpus:
    whole = gpus[-1][1] - need // _ONE * count
    return gpus[:-1] + ((_ONE, whole),) * (whole > 0)


def _parts_taken(gpus: _Gpus, need: int, count: int) -> _Gpus:
    """Take ``count`` fractions from the smallest parts that hold them, as best fit does."""
    remaining: dict[int, int] = {}
    for part, number in gpus:
        each = part // need
        full = min(number, count // each) if each else 0
        count -= full * each
        rest = count if full < number and 0 < count < each else 0
        count -= rest
        for size, many in (
            (part, number - full - (1 if rest else 0)),
            (part - each * need, full),
            (part - rest * need, 1 if rest else 0),
        ):
            if size > 0 and many > 0:
                remaining[size] = remaining.get(size, 0) + many
    return tuple(sorted(remaining.items()))
