"""``python -m gpuherd_sim.replay``: what `agentctl simulate` runs; with ``-o json`` it prints one object."""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd.errors import ConfigInvalid, HerdError
from gpuherd.shell.config_file import load
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.settings import ScalerSettings
from gpuherd_sim.replay import history, trace
from gpuherd_sim.replay.faults import LLAMA3_PER_NODE_HOUR, FaultModel
from gpuherd_sim.replay.run import Pace
from gpuherd_sim.replay.setup import POLICIES, Case, replay
from gpuherd_sim.replay.table import history_table, report_table

EX_USAGE: Final = 2
EX_CONFIG: Final = 78
_RAY_WALL_S: Final = 60.0
"""Ray's scheduler handles requests one by one; a row of it ends after so long and says that it was cut."""


@dataclass(frozen=True, slots=True)
class Refused(HerdError):
    """The call cannot be carried out as it was given."""

    why: str

    def __str__(self) -> str:
        return self.why


def main() -> int:
    """Replay a trace, or recorded decisions, and print the report."""
    given = _parser().parse_args()
    try:
        limits = load(ScalerSettings, given.config).limits
        told = _from_history(given, limits) if given.from_history else _from_trace(given, limits)
    except ConfigInvalid as error:
        for key, why in sorted(error.problems.items()):
            print(f"agentctl simulate: {given.config}: {key}: {why}", file=sys.stderr)
        return EX_CONFIG
    except HerdError as error:
        print(f"agentctl simulate: {error}", file=sys.stderr)
        return EX_USAGE
    if given.output == "json":
        print(json.dumps(told))
    else:
        print("\n".join(history_table(told) if given.from_history else report_table(told)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentctl simulate", description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE")
    parser.add_argument("--policy", choices=POLICIES, default="ours")
    parser.add_argument("--from-history", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=trace.MAX_JOBS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--boot-s", type=float, default=Pace().boot_s)
    parser.add_argument("--period-s", type=float, default=Pace().period_s)
    parser.add_argument("--fault-rate", type=float, default=0.0, metavar="X")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _from_trace(given: argparse.Namespace, limits: Limits) -> dict[str, object]:
    if given.trace is None:
        raise Refused("name a TRACE (CSV), or a record of decisions by --from-history")
    for name, value in (("--boot-s", given.boot_s), ("--period-s", given.period_s)):
        if value <= 0:
            raise Refused(f"{name} must be above 0")
    if given.fault_rate < 0:
        raise Refused("--fault-rate must not be negative")
    if not any(pool.gpus_per_node > 0 for pool in limits.pools):
        raise Refused(f"{given.config}: no [[pool]] has gpus_per_node, so no job of the trace could run")
    jobs = trace.cut(trace.read(given.trace), most=given.jobs)
    pace = Pace(
        boot_s=given.boot_s,
        period_s=given.period_s,
        **({"wall_limit_s": _RAY_WALL_S} if given.policy == "ray" else {}),
    )
    model = FaultModel(per_node_hour=given.fault_rate * LLAMA3_PER_NODE_HOUR)
    return replay(Case(jobs=jobs, limits=limits, model=model, pace=pace, seed=given.seed), given.policy)


def _from_history(given: argparse.Namespace, limits: Limits) -> dict[str, object]:
    return history.compare(given.from_history, limits)


if __name__ == "__main__":
    sys.exit(main())
