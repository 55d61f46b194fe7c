"""One run as a value: what happened in the world, what nodes had stored, and what was told at the end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName, PoolName
from gpuherd.wire.documents import State
from gpuherd_agent.memory import NodeMemory
from gpuherd_sim.journal import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What one node had on its disk from ``at`` on."""

    at: float
    node: NodeName
    memory: NodeMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A desired document that reached the broker: whether its node is wanted."""

    at: float
    node: NodeName
    serve: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A finished run. ``pools`` gives each node's pool, ``budgets`` how many of a pool may be out."""

    entries: tuple[Entry, ...] = ()
    saved: tuple[Saved, ...] = ()
    ordered: tuple[Ordered, ...] = ()
    states: Mapping[NodeName, State] = field(default_factory=dict)
    """Each node's newest state document at the end."""
    unfinished: int = 0
    """Tasks that had not finished at the end."""
    submitted: int = 0
    budgets: Mapping[PoolName, int] = field(default_factory=dict)

    def of(self, *kinds: str) -> Iterator[Entry]:
        """Yield entries of these kinds in their order."""
        return (entry for entry in self.entries if entry.kind in kinds)

    def memory(self, node: str, at: float) -> NodeMemory | None:
        """Return what the node had stored at an instant; None = nothing yet."""
        found = None
        for saved in self.saved:
            if saved.at > at:
                break
            if saved.node == node:
                found = saved.memory
        return found

    def sick(self, node: str, at: float) -> frozenset[str]:
        """Return what was truly wrong with the node's GPUs at an instant."""
        wrong: set[str] = set()
        for entry in self.of("fault"):
            if entry.node != node or entry.at > at:
                continue
            match entry.detail["what"]:
                case "gpu lost":
                    wrong.add(f"GPU-{node}-{entry.detail['gpu']}")
                case "driver hung":
                    wrong.add("driver")
                case "gpus recovered":
                    wrong.clear()
                case _:
                    pass
        return frozenset(wrong)

    def head_down_since(self, at: float) -> float | None:
        """Return since when the head was down at an instant, None when it was up."""
        since = None
        for entry in self.of("fault"):
            if entry.at > at:
                break
            what = str(entry.detail["what"])
            if what == "head killed":
                since = entry.at
            elif what.startswith("head restarted"):
                since = None
        return since
