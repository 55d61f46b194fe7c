"""``python -m gpuherd_sim.corpus_command FILE``: what `agentctl rules test` runs."""

import argparse
import json
import sys
from pathlib import Path

from gpuherd.health import Action, Severity
from gpuherd_agent.recording import RecordingInvalid
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.sensors.recorded import Recorded, is_recording, verdicts
from gpuherd_sim import corpus
from gpuherd_sim.corpus import Outcome, TraceInvalid

Change = tuple[Severity, Action, tuple[str, ...]]


def main() -> int:
    """Play every trace of a file, or a recording, under the shipped rules and say what came of each."""
    parser = argparse.ArgumentParser(prog="agentctl rules test")
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    try:
        if is_recording(given.file):
            return _replay(given.file, as_json=given.output == "json")
        outcomes = [corpus.judge(trace) for trace in corpus.load(given.file)]
    except (OSError, ValueError, KeyError, TypeError, RecordingInvalid) as error:
        what = "" if isinstance(error, TraceInvalid | RecordingInvalid) else f"{type(error).__name__}: "
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


def _replay(path: Path, *, as_json: bool) -> int:
    """Judge a recording again; say each change, and how many looks are judged otherwise than on that day."""
    recorded = Recorded.open(path)
    looks, differing = 0, 0
    changes: list[dict[str, object]] = []
    before: Change | None = None
    for look, second, verdict in verdicts(recorded, RULES):
        rules = tuple(sorted({finding.rule for finding in verdict.findings}))
        now = (verdict.severity, verdict.action, rules)
        looks += 1
        differing += now != (look.severity, look.action, look.rules)
        if now != before:
            said = {"severity": verdict.severity.value, "action": verdict.action.value, "rules": list(rules)}
            changes.append({"at_s": round(second, 1), **said, "reason": verdict.reason})
        before = now
    if as_json:
        whole = {
            "node": recorded.header.node,
            "looks": looks,
            "differing": differing,
            "ended": recorded.ended,
        }
        print(json.dumps({**whole, "skipped": recorded.skipped, "changes": changes}, indent=2))
    else:
        for change in changes:
            words = f"{change['severity']:<9} {change['action']:<7} {change['reason']}"
            print(f"{change['at_s']:>8} s  {words}".rstrip())
        print(f"{recorded.header.node}: {looks} looks, {differing} judged otherwise; {recorded.ended}")
    return 1 if differing else 0


def facts(outcome: Outcome) -> dict[str, object]:
    """Return one outcome as plain values."""
    return {"name": outcome.trace.name, "why": outcome.why, "verdict_s": outcome.verdict_s}


if __name__ == "__main__":
    sys.exit(main())
