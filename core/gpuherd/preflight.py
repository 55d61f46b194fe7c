"""The report of checks before a risky step: every check, not only the first that fails."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: ``code`` for machines, ``what`` it found, ``mend`` the next step for a person.

    ``passed`` is None when the check could not be made; that does not pass. A warning is told and stands
    in nobody's way.
    """

    code: str
    passed: bool | None
    what: str
    mend: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """All checks of one step in the order in which they were made."""

    checks: tuple[Check, ...] = ()
    session: str = ""
    """The session of Ray's head that was asked; empty = not known."""

    @property
    def passed(self) -> bool:
        """Say whether every check that can refuse was made and passed."""
        return not self.refusals

    @property
    def refusals(self) -> tuple[Check, ...]:
        """Return the checks that stand in the way."""
        return tuple(c for c in self.checks if c.passed is not True and not c.is_warning)

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Return what ought to be seen to, and does not stand in the way."""
        return tuple(c for c in self.checks if c.passed is not True and c.is_warning)

    @property
    def reason(self) -> str:
        """Return one line that names every refusal and how to mend it; empty when all passed."""
        return "; ".join(f"{c.what} ({c.mend})" if c.mend else c.what for c in self.refusals)
