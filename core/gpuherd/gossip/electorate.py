"""Who counts: the expected members E, and in which order they are asked to witness for one of them."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuherd.gossip.identity import NameHash, name_hash
from gpuherd.gossip.members import Members
from gpuherd.names import NodeName


@dataclass(slots=True)
class Electorate:
    """E by the roster; without one, every admitted member that has not left and is no observer."""

    racks: dict[NameHash, str] = field(default_factory=dict)
    names: dict[NameHash, NodeName] = field(default_factory=dict)
    has_roster: bool = False
    expected: frozenset[NameHash] = frozenset()
    ordered: tuple[NameHash, ...] = ()
    """``expected`` sorted: chance must not depend on the order of a set."""
    _orders: dict[NameHash, tuple[NameHash, ...]] = field(default_factory=dict)

    def set_roster(self, racks: Mapping[NodeName, str]) -> None:
        """Take a new list of expected names."""
        self.has_roster = True
        self.names = {name_hash(name): name for name in racks}
        self.racks = {name_hash(name): rack for name, rack in racks.items()}
        self._orders.clear()

    def refresh(self, members: Members, others: Iterable[NameHash]) -> bool:
        """Work out E again and say whether it changed. ``others`` count without being members (ourselves)."""
        silent = {m.hash for m in members if m.record is not None and (m.has_left or m.record.is_observer)}
        if self.has_roster:
            found = frozenset(self.names) - silent
        else:
            found = frozenset(m.hash for m in members if m.record is not None) - silent | frozenset(others)
        if found == self.expected:
            return False
        self.expected = found
        self.ordered = tuple(sorted(found))
        self._orders.clear()
        return True

    def witnesses(self, subject: NameHash) -> tuple[NameHash, ...]:
        """Return all others of E in the order in which they are asked to look at ``subject``.

        Rendezvous hashing: every node gets the same order. Racks take turns, so that the first eight see
        ``subject`` by as many ways as there are.
        """
        known = self._orders.get(subject)
        if known is None:
            ranked = sorted(
                (one for one in self.ordered if one != subject),
                key=lambda one: hashlib.blake2b(subject + one, digest_size=8).digest(),
            )
            known = self._orders[subject] = tuple(self._spread(ranked))
        return known

    def _spread(self, ranked: list[NameHash]) -> list[NameHash]:
        turns: dict[str, int] = {}
        keyed: list[tuple[int, int, NameHash]] = []
        for place, one in enumerate(ranked):
            rack = self.racks.get(one, "")
            turn = turns.get(rack, 0) if rack else 0
            if rack:
                turns[rack] = turn + 1
            keyed.append((turn, place, one))
        return [one for _, _, one in sorted(keyed)]
