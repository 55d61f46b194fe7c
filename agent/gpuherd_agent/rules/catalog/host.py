"""The host, and the checks of the site: rules, written out."""

from typing import Final

from gpuherd_agent.readings import ProbeOutcome
from gpuherd_agent.rules import host, kernel, site_check
from gpuherd_agent.rules.rule import Rule, Scope, Sensor

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        name=kernel.OOM,
        covers=("H1",),
        sensor=Sensor.KERNEL,
        scope=Scope.NODE,
        limits=kernel.Limits(),
        judge=kernel.judge_oom,
        clear_k=1,
        clear_hold_s=600.0,
        runbook="host.md",
        source="Linux: Out of memory: Killed process",
    ),
    Rule(
        name=host.STALLED,
        covers=("H1",),
        sensor=Sensor.HOST,
        scope=Scope.NODE,
        limits=host.Limits(),
        judge=host.judge_stalled,
        raise_n=10,
        raise_m=15,
        clear_hold_s=60.0,
        runbook="host.md",
        source="Linux PSI: memory full avg10",
    ),
    Rule(
        name=host.DISK,
        covers=("H3",),
        sensor=Sensor.HOST,
        scope=Scope.NODE,
        limits=host.Limits(),
        judge=host.judge_disk,
        raise_n=3,
        raise_m=3,
        runbook="host.md",
        source="Ray stops spilling at local_fs_capacity_threshold 0.95",
    ),
    Rule(
        name=site_check.NAME,
        limits=site_check.Limits(),
        judge=site_check.judge,
        clear_k=1,
        enforce=True,  # what may come of it is said by [checks] enforce and by the check itself
        cleared_by=frozenset(ProbeOutcome),
        runbook="site_check.md",
        source="the site's own checks.d",
    ),
)
