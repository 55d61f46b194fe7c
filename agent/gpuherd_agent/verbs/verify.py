"""``verify``: makes the checks of a join and hands out every one of them, whether or not the node serves."""

from typing import Final

from gpuherd.preflight import Check
from gpuherd.wire.documents import Command
from gpuherd_agent.verbs.verb import Desk, Done, Verb

_DEADLINE_S: Final = 900.0


async def run(desk: Desk, command: Command) -> Done:
    """Return the report; GPUs in use are not put to smoke work, so that nobody is disturbed."""
    del command
    report = await desk.steward.check(is_quiet=desk.steward.memory.raylet is not None)
    lines = "\n".join(line(check) for check in report.checks)
    if report.passed:
        return Done(
            reason=f"all {len(report.checks)} checks passed, {len(report.warnings)} warn", output=lines
        )
    return Done(reason=f"would not join: {report.reason}", output=lines)


def line(check: Check) -> str:
    """Return one check as a line for people."""
    word = {True: "passed", False: "warns" if check.is_warning else "REFUSES", None: "not made"}[check.passed]
    mend = f" ({check.mend})" if check.mend and check.passed is not True else ""
    return f"{word:8} {check.code:20} {check.what}{mend}"


VERB: Final = Verb(name="verify", deadline_s=_DEADLINE_S, run=run)
