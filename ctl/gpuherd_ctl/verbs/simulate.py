"""``agentctl simulate``: hands over to the replay's own program, which may import what agentctl must not."""

import argparse
import os
import sys

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace",
        nargs="?",
        metavar="TRACE",
        help="CSV with columns timestamp, num_gpus and duration (seconds)",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="the autoscaler.toml to try")
    parser.add_argument("--policy", choices=("ours", "ray"), help="whose decisions (default ours)")
    parser.add_argument(
        "--from-history", metavar="FILE", help="decide again what [scaler] record wrote, instead of a trace"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="only the first N jobs")
    parser.add_argument("--seed", type=int, metavar="N", help="of start times and faults (default 0)")
    parser.add_argument("--boot-s", type=float, metavar="S", help="median time of a start (default 300)")
    parser.add_argument("--period-s", type=float, metavar="S", help="time between decisions (default 5)")
    parser.add_argument(
        "--fault-rate",
        type=float,
        metavar="X",
        help="faults, as a multiple of those of Meta's Llama 3 training (default 0)",
    )


def _run(given: argparse.Namespace, _session: Session) -> ExitCode:
    command = [sys.executable, "-P", "-m", "gpuherd_sim.replay"]
    command += [given.trace] if given.trace else []
    for name in ("config", "policy", "from_history", "jobs", "seed", "boot_s", "period_s", "fault_rate"):
        value = getattr(given, name)
        command += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    command += ["-o", getattr(given, "output", "table")]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 (our own interpreter; no shell is meant)


VERB = Verb(
    name="simulate",
    summary="Replay a job trace, or recorded decisions, under given settings.",
    declare=_declare,
    run=_run,
)
