"""The outcome of a decision: what to ask of which node, and why each other node is left alone.

A plan only says; whether it is carried out or shown (``enforce`` or ``recommend``) is its reader's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gpuherd.names import NodeName, PoolName
from gpuherd.ray import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that was wanted and not planned: the rule that forbade it, with its figure."""

    rule: str
    """One word, bounded, fit for a metric label: ``max``, ``candidates``, ``frozen``, ``budget``, ..."""
    figure: float
    text: str
    pool: PoolName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """``by`` is turned on in place of ``node``, which stays as it is: its hold ends by its owner."""

    node: NodeName
    by: NodeName
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """How a pool stands and what it shall have."""

    pool: PoolName
    listed: int
    serving: int
    booting: int
    leaving: int
    barred: int
    """Held or sick: neither capacity nor candidate."""
    min: int
    max: int
    wanted: int
    """Nodes asked to serve and fit for it once the plan is carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Each expected node is in exactly one of ``serve``, ``release`` and ``kept``."""

    serve: tuple[NodeName, ...] = ()
    """Nodes to ask to serve; also those released before that have not drained yet."""
    release: tuple[NodeName, ...] = ()
    """Nodes to ask no longer: the scaler's hold, ended by Ray's own check of idleness."""
    reasons: Mapping[NodeName, str] = field(default_factory=dict)
    """Why, for each node in ``serve`` and ``release``."""
    kept: Mapping[NodeName, str] = field(default_factory=dict)
    """Why, for each node left alone."""
    replace: tuple[Replacement, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    demand: tuple[Shape, ...] = ()
    """Pending requests by shape as the head last told them; () also when it told nothing."""
    demand_known: bool = False
    infeasible: tuple[Shape, ...] = ()
    """Shapes that no pool could ever take, each once."""
    frozen: str = ""
    """Why nothing is taken away at present; empty = nothing forbids it."""
    pools: tuple[PoolFigures, ...] = ()

    @property
    def is_silent(self) -> bool:
        """Say whether the plan asks nothing of any node."""
        return not self.serve and not self.release


def encode(plan: Plan) -> bytes:
    """Return the plan as JSON; equal plans give equal bytes."""
    return msgspec.json.encode(plan, order="deterministic")


def decode(payload: bytes) -> Plan:
    """Return the plan in ``payload``; raises msgspec.ValidationError."""
    return msgspec.json.decode(payload, type=Plan)
