"""An enumeration whose members compare by their order of definition, worst last."""

import enum


class Ranked(enum.StrEnum):
    """Strings on the wire, ranks in code: ``max()`` of members is the worst one."""

    @property
    def rank(self) -> int:
        """Return 0 for the first member, rising in order of definition."""
        return list(type(self)).index(self)

    def _other(self, other: str) -> int:
        return type(self)(other).rank

    def __lt__(self, other: str) -> bool:
        return self.rank < self._other(other)

    def __le__(self, other: str) -> bool:
        return self.rank <= self._other(other)

    def __gt__(self, other: str) -> bool:
        return self.rank > self._other(other)

    def __ge__(self, other: str) -> bool:
        return self.rank >= self._other(other)
