"""Routes of the REST API that explain: plan, decisions, history. They read and imagine; nothing is done."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gpuherd import rest
from gpuherd.errors import NotFound, Retryable, WireInvalid
from gpuherd.names import parse_node
from gpuherd.ray import Shape
from gpuherd.rest_plan import Decision, Decisions, History, Plan, PoolFigures, Refusal, WhatIf
from gpuherd.shell.http import answer, read_body
from gpuherd_autoscaler import decisions
from gpuherd_autoscaler import plan as plans
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.chronicle import Chronicle
from gpuherd_autoscaler.faces import event_body, operation_body
from gpuherd_autoscaler.ledger import LedgerFailed
from gpuherd_autoscaler.loop import Loop

_PREFIX: Final = "/api/v1"
_LIMIT_MAX: Final = 1_000
_SHAPES_MAX: Final = 1_000
_EVENTS_READ: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """Handlers of the routes."""

    book: Book
    loop: Loop
    chronicle: Chronicle

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get(f"{_PREFIX}/plan", self.plan),
            web.post(f"{_PREFIX}/plan", self.what_if),
            web.get(f"{_PREFIX}/decisions", self.decisions),
            web.get(f"{_PREFIX}/decisions/{{id}}", self.decision),
            web.get(f"{_PREFIX}/nodes/{{name}}/history", self.history),
        ]

    async def plan(self, request: web.Request) -> web.Response:
        """Answer with the plan that stands, or with ``?at=SECONDS`` with the one that stood then."""
        if "at" in request.query:
            found = self.chronicle.kept.decision_at(_seconds(request.query["at"]))
            if found is None:
                raise NotFound(
                    "no decision is kept from that time or before; `agentctl decisions` lists them"
                )
            return answer(_kept_body(found))
        last, newest = self.loop.outcome.last, self.chronicle.newest
        if last is None:
            raise Retryable("no decision has been made yet; try again in a few seconds")
        number = newest.id if newest else 0
        return answer(plan_body(last.plan, decision=number, at=last.wall, mode=last.mode.value))

    async def what_if(self, request: web.Request) -> web.Response:
        """Answer with the plan for the present fleet if more requests waited."""
        body = await read_body(request, WhatIf)
        plan = self.loop.imagine(tuple(_shapes(body.demand)))
        return answer(plan_body(plan, at=self.book.clock.wall(), mode=self.book.mode.value))

    async def decisions(self, request: web.Request) -> web.Response:
        """Answer with kept decisions, newest first, the newest with its present count."""
        newest = self.chronicle.newest
        kept = self.chronicle.kept.decisions(limit=_limit(request))
        shown = [newest if newest is not None and each.id == newest.id else each for each in kept]
        return answer(Decisions(decisions=tuple(_line(each) for each in shown)))

    async def decision(self, request: web.Request) -> web.Response:
        """Answer with the whole plan of one kept decision."""
        text = request.match_info["id"]
        found = self.chronicle.kept.decision(int(text)) if text.isdecimal() and len(text) < 16 else None  # noqa: PLR2004
        if found is None:
            raise NotFound(f"decision {text[:40]!r} is not kept; `agentctl decisions` lists them")
        return answer(_kept_body(found))

    async def history(self, request: web.Request) -> web.Response:
        """Answer with what happened to one node, newest first."""
        name = parse_node(request.match_info["name"][:100])
        self.book.herd.frame(name, self.book.ledger.term)
        limit = _limit(request)
        events = [e for e in self.book.ledger.events(after=0, limit=_EVENTS_READ) if e.note.node == name]
        operations = [o for o in self.book.ledger.operations(limit=_EVENTS_READ) if o.node == name]
        return answer(
            History(
                node=name,
                events=tuple(event_body(event) for event in reversed(events[-limit:])),
                operations=tuple(operation_body(o) for o in operations[:limit]),
            )
        )


def plan_body(plan: plans.Plan, *, at: float, mode: str, decision: int = 0) -> Plan:
    """Return a plan as the API shows it."""
    return Plan(
        decision=decision,
        at=at,
        mode=mode,
        serve=plan.serve,
        release=plan.release,
        reasons=dict(plan.reasons),
        kept=dict(plan.kept),
        refusals=tuple(
            Refusal(rule=r.rule, figure=r.figure, text=r.text, pool=r.pool or "") for r in plan.refusals
        ),
        pools=tuple(
            PoolFigures(
                pool=p.pool,
                listed=p.listed,
                serving=p.serving,
                booting=p.booting,
                leaving=p.leaving,
                barred=p.barred,
                min=p.min,
                max=p.max,
                wanted=p.wanted,
            )
            for p in plan.pools
        ),
        demand=_demand(plan.demand),
        demand_known=plan.demand_known,
        infeasible=_demand(plan.infeasible),
        frozen=plan.frozen,
    )


def _kept_body(found: decisions.Decision) -> Plan:
    try:
        plan = decisions.plan_of(found)
    except ValueError as error:
        raise LedgerFailed(f"decision {found.id}: {error}") from error
    return plan_body(plan, decision=found.id, at=found.at, mode=found.mode.value)


def _line(each: decisions.Decision) -> Decision:
    return Decision(
        id=each.id,
        at=each.at,
        last_at=each.last_at,
        times=each.times,
        term=each.term,
        mode=each.mode.value,
        words=each.words,
    )


def _demand(shapes: Iterable[Shape]) -> tuple[rest.Demand, ...]:
    return tuple(rest.Demand(resources=dict(s.resources), count=s.count) for s in shapes)


def _shapes(demand: Sequence[rest.Demand]) -> Iterable[Shape]:
    if len(demand) > _SHAPES_MAX:
        raise WireInvalid("fields", f"more than {_SHAPES_MAX} shapes")
    for each in demand:
        if each.count < 1 or not all(math.isfinite(v) and v >= 0 for v in each.resources.values()):
            raise WireInvalid("fields", "count must be at least 1, and no amount negative")
        yield Shape(resources=tuple(sorted(each.resources.items())), count=each.count)


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "100")
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _LIMIT_MAX):
        raise WireInvalid("fields", f"limit must be 1 to {_LIMIT_MAX}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WireInvalid("fields", "at must be seconds of the epoch")
    return value
