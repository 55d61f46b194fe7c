"""What a verb is, and what it may touch: the desk."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from gpuherd.shell.clock import Clock
from gpuherd.wire.documents import Command
from gpuherd_agent.doors import Identity
from gpuherd_agent.recorder import Recorder
from gpuherd_agent.repair import Step
from gpuherd_agent.sensing import Sensing
from gpuherd_agent.station import Rules
from gpuherd_agent.steward import Steward


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The parts of the node that verbs work with. ``state_dir`` None = this node keeps no files."""

    identity: Identity
    rules: Rules
    sensing: Sensing
    steward: Steward
    clock: Clock
    rng: random.Random
    tell: Callable[[str, str], None]
    """(kind, reason) of what happened, for log and event topic."""
    state_dir: Path | None = None
    recorder: Recorder | None = None
    repairs: frozenset[Step] = frozenset()
    """What a machine may do about this host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a verb ended well: one line for people, and what it brought."""

    reason: str
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb.

    ``run`` raises Refused when it would not, with nothing changed, and another HerdError or OSError when
    it could not. Past ``deadline_s`` it is cancelled and has failed.
    """

    name: str
    deadline_s: float
    run: Callable[[Desk, Command], Awaitable[Done]]
