"""The kinds of triggers, by entry point of the group ``gpuherd.triggers``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final, Protocol

from gpuherd.errors import ConfigInvalid, HerdError
from gpuherd.shell.clock import Clock
from gpuherd_autoscaler.triggers.settings import Trigger
from gpuherd_autoscaler.windows import Window

GROUP: Final = "gpuherd.triggers"


class TriggerMissing(HerdError):
    """A trigger tells nothing now; the text says why."""


class Source(Protocol):
    """Where a trigger's number comes from."""

    async def read(self) -> float:
        """Return the number; raises TriggerMissing when there is none. It is cancelled at its deadline."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a source may use beside its own settings."""

    clock: Clock
    windows: Sequence[Window]


Make = Callable[[Trigger, Surroundings], Source]
"""What an entry point is: makes the source of one trigger. It must not touch the network yet."""


def make(kind: str, key: str) -> Make:
    """Return the maker of a kind; raises ConfigInvalid with the key path."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in found:
        raise ConfigInvalid({key: f"{kind[:80]!r} is no kind of trigger; known: {', '.join(sorted(found))}"})
    loaded: Make = found[kind].load()
    return loaded
