"""Racks: hosts that share a switch or a power feed, and so may fail together. Settings (``[[rack]]``)."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuherd.names import NameInvalid, NodeName, expand_nodes, parse_name

_expanded = functools.lru_cache(maxsize=256)(expand_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Hosts that may fail together. Keys under ``[[rack]]``."""

    name: str
    """1 to 63 of ``a-z 0-9 -``."""

    nodes: tuple[str, ...]
    """The hosts of the rack, such as ``["gpu-[001-008]"]``. Gossip asks witnesses from as many racks as
    there are; with none given, a rack whose switch fails may hold most witnesses of its own hosts."""

    @property
    def names(self) -> tuple[NodeName, ...]:
        """Return the listed hosts; raises NameInvalid."""
        return _expanded(self.nodes)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, why) for everything that cannot be used."""
        try:
            parse_name(self.name, "rack name")
        except NameInvalid as error:
            yield "name", str(error)
        try:
            if not self.names:
                yield "nodes", "names no node"
        except NameInvalid as error:
            yield "nodes", str(error)


def racks_of(racks: Sequence[Rack]) -> Mapping[NodeName, str]:
    """Return each listed node's rack."""
    return {name: rack.name for rack in racks for name in rack.names}


def rack_problems(racks: Sequence[Rack], known: Collection[NodeName]) -> Iterator[tuple[str, str]]:
    """Yield (key path, why) for what no single rack can know: names given twice, hosts of no pool."""
    first: dict[str, int] = {}
    placed: dict[NodeName, int] = {}
    for i, rack in enumerate(racks):
        if rack.name in first:
            yield f"rack[{i}].name", f"{rack.name!r} is the name of rack[{first[rack.name]}] too"
        first.setdefault(rack.name, i)
        try:
            listed = rack.names
        except NameInvalid:
            continue  # reported by the rack itself
        for name in listed:
            if name not in known:
                yield f"rack[{i}].nodes", f"{name} is in no [[pool]]"
            elif name in placed:
                yield f"rack[{i}].nodes", f"{name} stands in rack[{placed[name]}] already"
            placed.setdefault(name, i)
