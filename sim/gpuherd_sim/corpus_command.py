"""``python -m gpuherd_sim.corpus_command FILE``: what `agentctl rules test` runs."""

import argparse
import json
import sys
from pathlib import Path

from gpuherd_sim import corpus
from gpuherd_sim.corpus import Outcome, TraceInvalid


def main() -> int:
    """Play every trace of a file under the shipped rules and say what came of each."""
    parser = argparse.ArgumentParser(prog="agentctl rules test")
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    try:
        outcomes = [corpus.judge(trace) for trace in corpus.load(given.file)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "" if isinstance(error, TraceInvalid) else f"{type(error).__name__}: "
        print(f"agentctl rules test: {given.file}: {what}{error}", file=sys.stderr)
        return 2
    if given.output == "json":
        print(json.dumps([facts(outcome) for outcome in outcomes], indent=2))
    else:
        for outcome in outcomes:
            after = "" if outcome.verdict_s is None else f" after {outcome.verdict_s:g} s"
            print(
                f"{'FAILED' if outcome.why else 'ok':<8}{outcome.trace.name}{after}  {outcome.why}".rstrip()
            )
    return 1 if any(outcome.why for outcome in outcomes) else 0


def facts(outcome: Outcome) -> dict[str, object]:
    """Return one outcome as plain values."""
    return {"name": outcome.trace.name, "why": outcome.why, "verdict_s": outcome.verdict_s}


if __name__ == "__main__":
    sys.exit(main())
