"""The host, and the checks of the site: rules, written out."""

from typing import Final

from gpuherd_agent.readings import ProbeOutcome
from gpuherd_agent.rules import host, kernel, mounts, ports, site_check
from gpuherd_agent.rules.rule import Rule, Scope, Sensor

_LOOKS_OF_A_MINUTE: Final = 60
_SYSFS: Final = "Linux sysfs-class-infiniband"

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
    *(
        Rule(
            name=name,
            covers=("H4",),
            sensor=Sensor.HOST,
            scope=Scope.NODE,
            limits=host.Limits(),
            judge=judge,
            raise_n=_LOOKS_OF_A_MINUTE,
            raise_m=_LOOKS_OF_A_MINUTE,
            clear_hold_s=60.0,
            runbook="host.md",
            source=source,
        )
        for name, judge, source in (
            (host.IO, host.judge_io, "Linux PSI: io full avg10; the limit is ours"),
            (host.CPU, host.judge_cpu, "Linux PSI: cpu some avg10; the limit is ours"),
        )
    ),
    Rule(
        name=mounts.NAME,
        covers=("H5",),
        sensor=Sensor.MOUNTS,
        scope=Scope.NODE,
        limits=mounts.Limits(),
        judge=mounts.judge,
        raise_n=2,
        raise_m=2,
        clear_k=2,
        runbook="mounts.md",
        source="nfs(5): a hard mount waits for its server for ever",
    ),
    *(
        Rule(
            name=name,
            covers=(covers,),
            sensor=Sensor.PORTS,
            scope=Scope.NODE,
            limits=ports.Limits(),
            judge=judge,
            raise_n=raise_n,
            raise_m=raise_n,
            clear_hold_s=hold_s,
            runbook="ports.md",
            source=source,
        )
        for name, covers, judge, raise_n, hold_s, source in (
            (ports.DOWN, "N7", ports.judge_down, 2, 60.0, f"{_SYSFS}: state"),
            (ports.SLOW, "N7", ports.judge_slow, 2, 60.0, f"{_SYSFS}: rate"),
            (ports.FLAPS, "N8", ports.judge_flaps, 1, 600.0, f"{_SYSFS}: link_downed; the limit is ours"),
            (ports.BLIND, "N8", ports.judge_silent, 2, 60.0, f"{_SYSFS}; mlx5 waits 60 s for its firmware"),
        )
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
