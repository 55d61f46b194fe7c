"""``agentctl demo``: hands over to the demo's own program, which may import what agentctl must not."""

import argparse
import os
import sys

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the steps, tasks and timings to FILE")
    parser.add_argument("--record", metavar="FILE", help="write each decision and its inputs to FILE")
    parser.add_argument(
        "--keep", action="store_true", help="leave everything running and say how to look at it"
    )
    parser.add_argument("--stop", metavar="DIR", help="stop a demo that was kept, and remove its folder")


def _run(given: argparse.Namespace, _session: Session) -> ExitCode:
    command = [sys.executable, "-P", "-m", "gpuherd_sim.demo"]
    command += ["--json", given.json] if given.json else []
    command += ["--record", given.record] if given.record else []
    command += ["--keep"] if given.keep else []
    command += ["--stop", given.stop] if given.stop else []
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter; no shell is meant)


VERB = Verb(
    name="demo", summary="Run the main job on this machine, with simulated GPUs.", declare=_declare, run=_run
)
