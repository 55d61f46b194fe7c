"""``python -m gpuherd_agent.rules``: what `agentctl rules list` and `explain` run."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

from gpuherd_agent.rules import kernel, xid_table
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule


def main() -> int:
    """Print every rule, or everything about one."""
    parser = argparse.ArgumentParser(prog="agentctl rules")
    parser.add_argument("name", nargs="?")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    found = [rule for rule in RULES if given.name in (None, rule.name)]
    if not found:
        print(f"agentctl rules: no rule is named {given.name!r}; `agentctl rules list`", file=sys.stderr)
        return 8
    if given.output == "json":
        print(json.dumps([facts(rule) for rule in found], indent=2))
    elif given.name is None:
        print("\n".join(table()))
    else:
        print("\n".join(explanation(found[0])))
    return 0


def facts(rule: Rule) -> dict[str, object]:
    """Return what there is to know of a rule, as plain values."""
    return {
        "name": rule.name,
        "covers": list(rule.covers),
        "scope": rule.scope.value,
        "sensor": rule.sensor.value,
        "mode": "enforce" if rule.enforce else "observe",
        "raised": f"{rule.raise_n} of {rule.raise_m}",
        "ended": ended(rule),
        "limits": dataclasses.asdict(rule.limits),
        "runbook": f"docs/runbook/{rule.runbook}",
        "source": rule.source,
    }


def ended(rule: Rule) -> str:
    """Return when a finding of the rule ends."""
    if rule.latched:
        return "by `agentctl ack`, or a reboot"
    hold = f" over {rule.clear_hold_s:g} s" if rule.clear_hold_s else ""
    return f"after {rule.clear_k} looks without it{hold}"


def table() -> Iterator[str]:
    """Yield a line a rule."""
    yield f"{'RULE':<26}{'IDS':<12}{'SCOPE':<8}{'MODE':<9}{'RAISED':<10}ENDED"
    for rule in RULES:
        mode = "enforce" if rule.enforce else "observe"
        raised = f"{rule.raise_n} of {rule.raise_m}"
        ids = ",".join(rule.covers) or "-"
        yield f"{rule.name:<26}{ids:<12}{rule.scope.value:<8}{mode:<9}{raised:<10}{ended(rule)}"


def explanation(rule: Rule) -> Iterator[str]:
    """Yield everything about one rule; of the kernel's also each code with its source."""
    for key, value in facts(rule).items():
        yield f"{key:<9} {value}"
    meanings = {
        kernel.LOST: (xid_table.Meaning.LOST,),
        kernel.RESET: (xid_table.Meaning.RESET,),
        kernel.REBOOT: (xid_table.Meaning.REBOOT,),
        kernel.INSPECT: (xid_table.Meaning.INSPECT, xid_table.Meaning.CONFIRM),
        kernel.CONTAINED: (xid_table.Meaning.CONTAINED,),
        kernel.APPLICATION: (xid_table.Meaning.APPLICATION,),
    }.get(rule.name, ())
    for code, row in sorted(xid_table.XIDS.items()):
        if row.meaning in meanings:
            yield f"Xid {code:<5} {row.words} [{row.source}]"


if __name__ == "__main__":
    sys.exit(main())
