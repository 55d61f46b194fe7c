"""``agentctl plan``: what the autoscaler asks now, asked at some time, or would ask if more work waited."""

import argparse
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpuherd.rest import Demand
from gpuherd.rest_plan import Plan, WhatIf
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.durations import parse_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import clock_text
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--at", metavar="T", help="the plan that stood then: ISO time, or 2h = two hours ago")
    which.add_argument(
        "--demand", metavar="FILE", type=Path, help='what if this waited: [{"resources":{"GPU":8},"count":2}]'
    )
    parser.add_argument(
        "--all", action="store_true", help="also each node that is left alone, with the reason"
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    if given.demand is not None:
        plan = session.scaler.post("/plan", WhatIf(demand=read_demand(given.demand)), Plan)
    elif given.at is not None:
        plan = session.scaler.get(f"/plan?at={instant(given.at, session.wall())}", Plan)
    else:
        plan = session.scaler.get("/plan", Plan)
    session.paper.json(plan)
    for line in plan_lines(plan, every=given.all):
        session.paper.line(line)
    return ExitCode.DONE


def instant(text: str, now: float) -> float:
    """Return the seconds of the epoch that a person means: ISO time, or how long ago; raises Trouble."""
    try:
        return now - parse_duration(text)
    except argparse.ArgumentTypeError:
        pass
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        hint = "write 2026-12-01T03:30 for a time, or 2h for two hours ago"
        raise Trouble(ExitCode.USAGE, f"{text[:40]!r} is no time", hint) from error


def read_demand(path: Path) -> tuple[Demand, ...]:
    """Return the shapes in a JSON file; raises Trouble that says what is wrong with it."""
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(raw, type=tuple[Demand, ...])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        hint = 'it holds [{"resources": {"GPU": 8}, "count": 2}, ...]'
        raise Trouble(ExitCode.USAGE, f"{path}: {error}", hint) from error


def plan_lines(plan: Plan, *, every: bool) -> Iterator[str]:
    """Yield a plan for people: what is asked, what was refused, how the pools stand."""
    number = f"decision {plan.decision}, " if plan.decision else ""
    yield f"{number}{clock_text(plan.at)}, mode {plan.mode}"
    waiting = ", ".join(words(each) for each in plan.demand) or "nothing"
    yield f"demand    {waiting if plan.demand_known else 'not known: the head tells nothing'}"
    for each in plan.infeasible:
        yield f"never     {words(each)} fits no pool"
    if plan.frozen:
        yield f"FROZEN    {plan.frozen}"
    for what, names in (("serve", plan.serve), ("release", plan.release)):
        for name in names:
            yield f"{what:9} {name}: {plan.reasons.get(name, '')}"
    if not (plan.serve or plan.release):
        yield "asks      nothing"
    for refusal in plan.refusals:
        yield f"refused   {refusal.rule}: {refusal.text}"
    for pool in plan.pools:
        yield (
            f"pool      {pool.pool}: {pool.serving} serve, {pool.booting} start, {pool.leaving} leave, "
            f"{pool.barred} barred; wants {pool.wanted} of {pool.min} to {pool.max}"
        )
    for name, why in sorted(plan.kept.items()) if every else ():
        yield f"kept      {name}: {why}"


def words(demand: Demand) -> str:
    """Return one shape as ``2 x {GPU: 8}``."""
    inner = ", ".join(f"{name}: {amount:g}" for name, amount in sorted(demand.resources.items()))
    return f"{demand.count} x {{{inner}}}"


VERB = Verb(name="plan", summary="Show what the autoscaler asks, or would ask.", declare=_declare, run=_run)
