"""The report of checks before a risky step: every check, not only the first that fails."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: ``code`` for machines, ``what`` it found, ``mend`` the next step for a person.

    ``passed`` is None when the check could not be made; that does not pass.
    """

    code: str
    passed: bool | None
    what: str
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """All checks of one step in the order in which they were made."""

    checks: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool:
        """Say whether every check was made and passed."""
        return all(check.passed is True for check in self.checks)

    @property
    def refusals(self) -> tuple[Check, ...]:
        """Return the checks that stand in the way."""
        return tuple(check for check in self.checks if check.passed is not True)

    @property
    def reason(self) -> str:
        """Return one line that names every refusal and how to mend it; empty when all passed."""
        return "; ".join(f"{c.what} ({c.mend})" if c.mend else c.what for c in self.refusals)
