"""Pools: which nodes are ours, how many of them may serve, and what one of them offers. Settings."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuherd import slots
from gpuherd.names import NameInvalid, NodeName, PoolName, expand_nodes, parse_name
from gpuherd_autoscaler.wishes import Wishes

_expanded = functools.lru_cache(maxsize=64)(expand_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes that are alike. Keys under ``[[pool]]``."""

    name: PoolName
    """1 to 63 of ``a-z 0-9 -``; part of topics, drain slots and metric labels."""

    nodes: tuple[str, ...]
    """The hosts of the pool, such as ``["gpu-[001-500]"]``. A host may be in one pool only."""

    min: int | None = None
    """Nodes that serve even without demand. Unset = all listed nodes: an unset pool is never shrunk."""

    max: int | None = None
    """Nodes that are asked to serve at most, sick ones not counted. Unset = all listed nodes."""

    gpus_per_node: int = 0
    """GPUs that a node offers to Ray. 0 = a pool of hosts without GPUs, the only kind that is started
    for demand that asks for none."""

    cpus_per_node: float | None = None
    """CPUs that a node offers to Ray. Unset = CPU demand does not bound the plan: too few nodes may be
    started for tasks that ask for many CPUs each."""

    resources: Mapping[str, float] = field(default_factory=dict)
    """Other resources of a node, such as ``memory`` in bytes or custom ones. ``memory`` and
    ``object_store_memory`` do not bound the plan unless given; a custom one that is not given is absent."""

    idle_timeout_s: float = 600.0
    """How long a node must have been idle, by our own clock, before it may be released. Lower than the
    time a node needs to come back, and nodes are stopped just to be started again (ray#50783)."""

    cooldown_s: float = 60.0
    """No node of the pool is released for so long after one of it was turned on."""

    warm_spares: int = 0
    """Idle nodes kept beyond what demand needs, within ``max``. Each costs a node and saves a start."""

    warm_spares_in: Mapping[str, int] = field(default_factory=dict)
    """Warm spares while a ``[[window]]`` is open, by its name, such as ``{ day = 2 }``. Of several open
    ones, and ``warm_spares``, the greatest counts."""

    starting_max: int | None = None
    """Nodes that may be starting at once. Unset = no bound. A group that needs more nodes than this to
    start at once never gets them, and the plan says so."""

    starts_per_minute: int | None = None
    """Nodes that may start within any 60 s, as a power feed, a boot server or Ray's head may need. Unset =
    no bound. The same holds for groups."""

    leaving_max: int | None = None
    """Nodes that may be on their way out at once by our acts. Unset = the drain budget of the pool:
    10 % of its size, and never less than one. Higher shrinks faster and risks more at a time."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, why) for everything that cannot be used."""
        try:
            parse_name(self.name, "pool name")
        except NameInvalid as error:
            yield "name", str(error)
        try:
            size = len(self.names)
        except NameInvalid as error:
            yield "nodes", str(error)
            return
        if size == 0:
            yield "nodes", "names no node"
        yield from self._bounds_problems(size)
        yield from self._amount_problems()

    def _amount_problems(self) -> Iterator[tuple[str, str]]:
        for key in ("gpus_per_node", "cpus_per_node", "idle_timeout_s", "cooldown_s", "warm_spares"):
            if (getattr(self, key) or 0) < 0:
                yield key, "must not be negative"
        for resource, amount in sorted(self.resources.items()):
            if amount < 0:
                yield f"resources.{resource}", "must not be negative"
            if resource in ("GPU", "CPU"):
                yield f"resources.{resource}", f"is given by {resource.lower()}s_per_node"
        for window, spares in sorted(self.warm_spares_in.items()):
            if spares < 0:
                yield f"warm_spares_in.{window}", "must not be negative"
        for key, act in (("leaving_max", "leave"), ("starting_max", "start"), ("starts_per_minute", "start")):
            bound: int | None = getattr(self, key)
            if bound is not None and bound < 1:
                yield key, f"must be at least 1, else no node could ever {act}"

    def _bounds_problems(self, size: int) -> Iterator[tuple[str, str]]:
        if self.floor < 0:
            yield "min", "must not be negative"
        if self.floor > self.ceiling:
            given = "" if self.max is not None and self.min is not None else " (unset = all listed nodes)"
            yield "min", f"{self.floor} is above max {self.ceiling}{given}"
        if self.ceiling > size:
            yield "max", f"{self.ceiling} is above the {size} nodes that are listed"

    @property
    def names(self) -> tuple[NodeName, ...]:
        """Return the listed nodes in their order; raises NameInvalid."""
        return _expanded(self.nodes)

    @property
    def floor(self) -> int:
        """Return ``min``, or the number of listed nodes when it is unset."""
        return len(self.names) if self.min is None else self.min

    @property
    def ceiling(self) -> int:
        """Return ``max``, or the number of listed nodes when it is unset."""
        return len(self.names) if self.max is None else self.max

    def sized(self, wishes: Wishes) -> "Pool":
        """Return the pool within the bounds that people have set for it; as it is when they have set none."""
        size = wishes.size(self.name)
        return self if size is None else replace(self, min=size.nodes, max=size.nodes)

    def spares(self, open_windows: Collection[str]) -> int:
        """Return how many warm spares the pool keeps while these windows are open."""
        return max(self.warm_spares, *(n for w, n in self.warm_spares_in.items() if w in open_windows), 0)

    @property
    def leaving_budget(self) -> int:
        """Return how many nodes may be on their way out at once."""
        return slots.budget(len(self.names)) if self.leaving_max is None else self.leaving_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferrable:
    """``[deferrable]``: work that can wait for a window, such as the night."""

    window: str = ""
    """Name of the ``[[window]]``. Empty = nothing waits."""
    resource: str = "deferrable"
    """Requests that name this resource count only while the window is open. Every node must offer it
    (``[ray] resources``), or Ray will never place them."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if not self.resource or self.resource in ("CPU", "GPU", "memory", "object_store_memory"):
            yield "resource", f"{self.resource!r} must be a custom resource"


def index(pools: Sequence[Pool]) -> dict[NodeName, PoolName]:
    """Return each listed node's pool; of a node listed twice the first pool counts."""
    found: dict[NodeName, PoolName] = {}
    for pool in pools:
        for name in pool.names:
            found.setdefault(name, pool.name)
    return found


def pool_problems(pools: Sequence[Pool], key: str = "pool") -> Iterator[tuple[str, str]]:
    """Yield (key path, why) for what no single pool can know: names or nodes given twice."""
    if not pools:
        yield key, "is missing: list the nodes in at least one [[pool]]"
    names: dict[str, int] = {}
    nodes: dict[NodeName, int] = {}
    for i, pool in enumerate(pools):
        if pool.name in names:
            yield f"{key}[{i}].name", f"{pool.name!r} is the name of {key}[{names[pool.name]}] too"
        names.setdefault(pool.name, i)
        try:
            listed = pool.names
        except NameInvalid:
            continue  # reported by the pool itself
        twice = [name for name in listed if name in nodes]
        if twice:
            more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
            yield f"{key}[{i}].nodes", f"{twice[0]}{more} listed in {key}[{nodes[twice[0]]}] already"
        for name in listed:
            nodes.setdefault(name, i)
