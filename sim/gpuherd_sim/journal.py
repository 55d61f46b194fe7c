"""What truly happened in a simulated world, in order: the record that invariants judge.

Only the world writes here, never the programs under test.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

Detail = str | int | float | bool | None

SENSES: Final = (
    "node.joined",
    "node.dead",
    "raylet.ordered",
    "raylet.started",
    "raylet.gone",
    "drain.asked",
    "drain.begun",
    "slot.claimed",
    "slot.released",
    "task.started",
    "task.finished",
    "task.lost",
    "process.started",
    "process.killed",
    "fault",
)
"""Every kind of entry there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened at ``at`` (virtual seconds); ``node`` is empty for the cluster as a whole."""

    at: float
    kind: str
    node: str = ""
    detail: dict[str, Detail] = field(default_factory=dict)


class Journal:
    """Append-only list of entries."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self._now = now

    def add(self, kind: str, node: str = "", **detail: Detail) -> None:
        """Write down that ``kind`` happened now; raises KeyError for a kind that is not in SENSES."""
        if kind not in SENSES:
            raise KeyError(kind)
        self.entries.append(Entry(at=self._now(), kind=kind, node=node, detail=detail))

    def of(self, *kinds: str, node: str | None = None) -> Iterator[Entry]:
        """Yield entries of these kinds (of one node) in their order."""
        for entry in self.entries:
            if entry.kind in kinds and (node is None or entry.node == node):
                yield entry
