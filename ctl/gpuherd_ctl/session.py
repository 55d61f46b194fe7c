"""What a verb is given: the autoscaler, the paper to print on, who asks, and time."""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuherd_ctl.client import Scaler
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.output import Paper


def _wait(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of agentctl. ``ask`` puts a yes-or-no question, None = there is nobody to ask."""

    scaler: Scaler
    paper: Paper
    user: str
    ask: Callable[[str], bool] | None = None
    wait: Callable[[float], None] = field(default=_wait)
    wall: Callable[[], float] = field(default=time.time)  # noqa: TID251 (the one clock of agentctl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb: how its arguments are declared, and what it does. ``run`` may raise Trouble."""

    name: str
    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Session], ExitCode]
