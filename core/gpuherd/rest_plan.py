"""Bodies of the REST API that explain: plans, decisions, and what happened to a node."""

from gpuherd.names import NodeName
from gpuherd.rest import Body, Demand, Event, Operation


class Refusal(Body, frozen=True, kw_only=True):
    """Something that was wanted and not planned, by which rule and with which figure."""

    rule: str
    figure: float
    text: str
    pool: str = ""


class PoolFigures(Body, frozen=True, kw_only=True):
    """How a pool stands and what it shall have."""

    pool: str
    listed: int
    serving: int
    booting: int
    leaving: int
    barred: int
    min: int
    max: int
    wanted: int


class Plan(Body, frozen=True, kw_only=True):
    """GET /plan, POST /plan: what is asked of which node, and why each other node is left alone."""

    decision: int = 0
    """Number of the kept decision; 0 = none, as for what was only imagined."""
    at: float
    mode: str
    serve: tuple[NodeName, ...] = ()
    release: tuple[NodeName, ...] = ()
    reasons: dict[NodeName, str]
    kept: dict[NodeName, str]
    refusals: tuple[Refusal, ...] = ()
    pools: tuple[PoolFigures, ...] = ()
    demand: tuple[Demand, ...] = ()
    demand_known: bool = False
    infeasible: tuple[Demand, ...] = ()
    frozen: str = ""


class WhatIf(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /plan: requests that would wait as well. Nothing is done."""

    demand: tuple[Demand, ...]


class Decision(Body, frozen=True, kw_only=True):
    """One line of GET /decisions: made ``times`` in a row from ``at`` to ``last_at``."""

    id: int
    at: float
    last_at: float
    times: int
    term: int
    mode: str
    words: str


class Decisions(Body, frozen=True, kw_only=True):
    """GET /decisions, newest first."""

    decisions: tuple[Decision, ...]


class History(Body, frozen=True, kw_only=True):
    """GET /nodes/{name}/history: newest first."""

    node: NodeName
    events: tuple[Event, ...] = ()
    operations: tuple[Operation, ...] = ()
