"""``repair``: what would be done about a finding, and what stands in its way. Only as a dry run.

What carries a repair out is a unit of its own with root's rights, which this version does not install.
"""

from typing import Final

from gpuherd.errors import Refused
from gpuherd.health import Finding
from gpuherd.wire.documents import Command
from gpuherd_agent import repair
from gpuherd_agent.actuators.logins import logged_in
from gpuherd_agent.repair import RepairFacts
from gpuherd_agent.verbs.verb import Desk, Done, Verb
from gpuherd_agent.verbs.verify import line

_DEADLINE_S: Final = 10.0


async def run(desk: Desk, command: Command) -> Done:
    """Return the plan for the worst finding that has a repair; raises Refused when there is none."""
    if command.arguments.get("dry_run") != "yes":
        raise Refused("nothing carries repairs out on this host; `agentctl repair --dry-run` shows the plan")
    gpu = command.arguments.get("gpu", "")
    memory, wall = desk.steward.memory, desk.clock.wall()
    for finding in desk.sensing.health.verdict.findings:
        step = repair.next_step(finding, memory.attempts, boot_id=desk.identity.boot_id, wall=wall)
        if step is None or gpu not in ("", finding.gpu):
            continue
        report = repair.guards(step, _facts(desk, finding, is_reboot=step is repair.Step.REBOOT))
        lines = "\n".join(line(check) for check in report.checks)
        where = f"GPU {finding.gpu}" if finding.gpu else "the node"
        verdict = "nothing stands in its way" if report.passed else "it would not be done"
        return Done(reason=f"{step.value} of {where} for {finding.rule}: {verdict}", output=lines)
    raise Refused(f"nothing is found {f'on GPU {gpu[:80]} ' if gpu else ''}that a repair could mend")


def _facts(desk: Desk, finding: Finding, *, is_reboot: bool) -> RepairFacts:
    memory, probe = desk.steward.memory, desk.sensing.health.snapshot.probe
    of_all = [g.pids for g in probe.gpus] if probe else []
    meant = [g.pids for g in probe.gpus if is_reboot or g.gpu == finding.gpu] if probe else []
    return RepairFacts(
        phase=desk.steward.station.phase,
        has_raylet=memory.raylet is not None,
        clients=_count(meant),
        foreign=_count(of_all),
        logins=logged_in(),
        attempts=memory.attempts,
        wall=desk.clock.wall(),
        allowed=desk.repairs,
    )


def _count(pids: list[tuple[int, ...] | None]) -> int | None:
    """Return how many processes there are; None when one GPU did not tell, or none was read."""
    if not pids or None in pids:
        return None
    return len({pid for group in pids if group for pid in group})


VERB: Final = Verb(name="repair", deadline_s=_DEADLINE_S, run=run)
