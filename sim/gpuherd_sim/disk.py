"""The agent's durable store on a simulated disk: it outlives the agent, takes every save, or fails."""

import contextvars
from collections.abc import Callable

import msgspec

from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.store import Store, StoreFailed


class Disk:
    """What is on one host's disk; ``history`` is every state it ever had, with the instant."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.fields: dict[str, bytes] = {}
        self.is_full = False
        self.history: list[tuple[float, NodeMemory]] = []
        self.on_keep: list[Callable[[NodeMemory], None]] = []
        """Called after each save, before the agent goes on: places to crash at."""
        self._now = now

    def keep(self, memory: NodeMemory) -> None:
        """Take a save, whole."""
        self.fields = {n: msgspec.json.encode(getattr(memory, n)) for n in memory.__struct_fields__}
        self.history.append((self._now(), memory))
        for call in tuple(self.on_keep):
            contextvars.Context().run(call, memory)

    def lose(self) -> None:
        """Lose everything, as a re-imaged host does."""
        self.fields.clear()


class DiskStore(Store):
    """``gpuherd_agent.store.Store`` on a Disk: the same encoding, without files."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.set_aside = None
        self.was_new = not disk.fields

    def load(self) -> NodeMemory:
        """Return what was saved last."""
        parts = {name: msgspec.json.decode(value) for name, value in self._disk.fields.items()}
        return msgspec.convert(parts, NodeMemory)

    def save(self, memory: NodeMemory) -> None:
        """Keep the memory; raises StoreFailed while the disk is full, and has changed nothing."""
        if self._disk.is_full:
            raise StoreFailed("cannot record a change: the simulated disk is full")
        self._disk.keep(memory)

    def close(self) -> None:
        """Nothing to close."""
