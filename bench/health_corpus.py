"""Faults caught, noise borne, and the time to each verdict on the corpora; JSON on the last line."""

import json
import statistics
import sys
from pathlib import Path

from gpuherd_sim import corpus

FOLDER = Path(__file__).parent.parent / "tests" / "corpus"


def main() -> int:
    """Play every trace with every rule enforced, name what failed, and print the sum."""
    faults = [corpus.judge(trace) for trace in corpus.load(FOLDER / "faults.toml")]
    benign = [corpus.judge(trace) for trace in corpus.load(FOLDER / "benign.toml")]
    for outcome in (*faults, *benign):
        if outcome.why:
            print(f"{outcome.trace.name}: {outcome.why}")
    times = sorted(o.verdict_s for o in faults if o.verdict_s is not None)
    told = {
        "faults": len(faults),
        "caught": sum(not o.why for o in faults),
        "benign": len(benign),
        "false_drains": sum(bool(o.why) for o in benign),
        "time_to_verdict_s": {
            "p50": round(statistics.median(times), 3),
            "p99": round(times[int(0.99 * (len(times) - 1))], 3),
        },
    }
    passed = told["caught"] == told["faults"] and told["false_drains"] == 0
    print(json.dumps({"bench": "health_corpus", "passed": passed, **told}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
