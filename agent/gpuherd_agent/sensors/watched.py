"""A loaded GPU library that notes each call before it is made, and what it was answered."""

from collections.abc import Callable
from typing import Any

from gpuherd_agent.sensors.backend import Notes


class Watched:
    """Takes a loaded library's place: same functions, and ``notes`` has the one under way.

    ``plain`` names functions that are handed out as they are: those whose attributes a caller sets.
    """

    def __init__(self, library: Any, notes: Notes, *, plain: frozenset[str]) -> None:  # noqa: ANN401
        self._library = library
        self._notes = notes
        self._plain = plain

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Return the function of this name; raises AttributeError as the library does."""
        function: Callable[..., int] = getattr(self._library, name)
        if name in self._plain:
            return function
        enter = self._notes.enter

        def call(*arguments: object) -> int:
            enter(name)
            return function(*arguments)

        return call
