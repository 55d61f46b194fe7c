"""What policy may ask the shell to do, and what the shell answers: plain values.

One act of membership runs at a time. An outcome that comes after its act was forgotten is dropped.
"""

from dataclasses import dataclass

from gpuherd.names import PoolName, RayNodeId
from gpuherd.preflight import Preflight
from gpuherd.ray import DrainAnswer, RayNode
from gpuherd_agent.doors import DrainOrder, JoinOrder, Raylet, Worker
from gpuherd_agent.refusals import JoinRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Make the checks of a join against this head; a rehearsal leads to no join."""

    head: str
    is_rehearsal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a raylet."""

    order: JoinOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Ask the head for our node."""

    head: str
    node_id: RayNodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Ask Ray to drain our raylet; ``rank`` as in DrainRecord."""

    order: DrainOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End what is left of the raylet (None = only sweep what a failed start may have left)."""

    raylet: Raylet


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Free our drain slots."""

    head: str
    pool: PoolName


Act = Verify | Start | Look | Drain | Stop | Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Answer to Verify."""

    preflight: Preflight


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Answer to Start: the process runs; whether Ray counts it is for Look to find out."""

    raylet: Raylet


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """Answer to Start: nothing runs."""

    code: JoinRefusal
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Answer to Look; ``node`` None with ``reachable`` = the head does not list us.

    ``work`` is what ran here at that instant, None = not known.
    """

    reachable: bool
    node: RayNode | None = None
    work: tuple[Worker, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Answer to Drain."""

    answer: DrainAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Answer to Stop; not ``clean`` = some process would not die."""

    clean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Answer to Release."""

    done: bool


Outcome = Verified | Started | StartFailed | Looked | Drained | Stopped | Released
