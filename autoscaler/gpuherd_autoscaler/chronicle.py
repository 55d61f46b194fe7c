"""Keeps decisions as they are made. A disk that refuses costs the record and nothing else."""

from typing import Protocol

from gpuherd.shell import logs
from gpuherd_autoscaler.decisions import (
    Decision,
    Log,
    again,
    begin,
    numbered,
    pack_inputs,
    pack_plan,
    repeats,
)
from gpuherd_autoscaler.ledger import LedgerFailed, Mode
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import Snapshot
from gpuherd_autoscaler.summary import summary

log = logs.get("gpuherd.autoscaler")


class Kept(Protocol):
    """Where decisions are kept."""

    def keep(self, decision: Decision) -> int:
        """Write a decision, or the raised count of one that has a number; return its number.

        Raises LedgerFailed.
        """
        ...

    def decisions(self, *, limit: int = 100) -> tuple[Decision, ...]:
        """Return kept decisions, newest first."""
        ...

    def decision(self, number: int) -> Decision | None:
        """Return one decision."""
        ...

    def decision_at(self, wall: float) -> Decision | None:
        """Return the decision that stood at this instant."""
        ...


class Chronicle:
    """Hand it every decision; it writes what is new and counts what repeats."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._log = Log()
        self._is_failing = False

    @property
    def newest(self) -> Decision | None:
        """Return the decision that stands, with its present count."""
        return self._log.newest

    def take(self, snapshot: Snapshot, plan: Plan, *, mode: Mode, term: int, wall: float) -> None:
        """Keep one decision; never raises."""
        newest = self._log.newest
        if newest is not None and repeats(self._log, plan, term=term, mode=mode):
            self._log, due = again(self._log, newest, wall=wall)
        else:
            due = Decision(
                at=wall,
                last_at=wall,
                times=1,
                term=term,
                mode=mode,
                words=summary(plan),
                plan=pack_plan(plan),
                inputs=pack_inputs(snapshot),
            )
            self._log = begin(due, plan)
        if due is not None:
            self._keep(due)

    def _keep(self, due: Decision) -> None:
        try:
            self._log = numbered(self._log, self.kept.keep(due))
        except LedgerFailed as error:
            if not self._is_failing:
                log.warning("decision.not_kept", error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False
