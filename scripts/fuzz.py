"""Feed mutated packets to a gossip node; exit status 1 when it crashes, hangs or grows.

The mutator is plain and seeded: a crash is played again with its ``--seed``.
"""

import argparse
import json
import sys

from gpuherd_sim.gossip.fuzz import run

MAX_SLOWEST_S = 0.5
MAX_GROWN_KIB = 128 * 1024
_CHUNK = 50_000


def main() -> int:
    """Run in chunks with a fresh node each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    packets = used = grown_kib = 0
    slowest_s = 0.0
    for number in range(-(-given.packets // _CHUNK)):
        outcome = run(min(_CHUNK, given.packets - packets), given.seed + number)
        packets, used = packets + outcome.packets, used + outcome.used
        slowest_s, grown_kib = max(slowest_s, outcome.slowest_s), grown_kib + outcome.grown_kib
        print(f"{packets} packets, {used} of them signed and used", file=sys.stderr, flush=True)
    is_good = slowest_s <= MAX_SLOWEST_S and grown_kib <= MAX_GROWN_KIB
    print(
        json.dumps(
            {
                "packets": packets,
                "used": used,
                "crashes": 0,
                "slowest_s": round(slowest_s, 4),
                "slowest_budget_s": MAX_SLOWEST_S,
                "grown_mib": round(grown_kib / 1024, 1),
                "grown_budget_mib": MAX_GROWN_KIB // 1024,
                "passed": is_good,
            }
        )
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
