"""What the kernel log says: rules, written out."""

from typing import Final

from gpuherd_agent.rules import kernel
from gpuherd_agent.rules.rule import Rule, Scope, Sensor

RULES: Final[tuple[Rule, ...]] = (
    *(
        Rule(
            name=name,
            covers=(covers,),
            sensor=Sensor.KERNEL,
            limits=kernel.Limits(),
            judge=judge,
            clear_k=1,
            clear_hold_s=hold_s,
            latched=latched,
            enforce=enforce,
            runbook="xid.md",
            source=f"NVIDIA Xid catalogue; rules/xid_table.py has a source for each code ({name})",
        )
        for name, covers, judge, latched, enforce, hold_s in (
            (kernel.LOST, "X-reboot", kernel.judge_lost, True, True, 0.0),
            (kernel.RESET, "X-reset", kernel.judge_reset, True, False, 0.0),
            (kernel.REBOOT, "X-reboot", kernel.judge_reboot, True, False, 0.0),
            (kernel.INSPECT, "X-inspect", kernel.judge_inspect, False, False, 3_600.0),
            (kernel.CONTAINED, "X-contained", kernel.judge_contained, False, False, 3_600.0),
            (kernel.APPLICATION, "X-application", kernel.judge_application, False, False, 600.0),
            (kernel.UNKNOWN, "X-unknown", kernel.judge_unknown, False, False, 3_600.0),
        )
    ),
    Rule(
        name=kernel.SWITCH,
        covers=("X-switch",),
        sensor=Sensor.KERNEL,
        scope=Scope.FABRIC,
        limits=kernel.Limits(),
        judge=kernel.judge_switch,
        clear_k=1,
        clear_hold_s=3_600.0,
        runbook="xid.md",
        source="NVIDIA fabric manager: SXid, Fatal and Non-fatal",
    ),
    Rule(
        name=kernel.INIT,
        covers=("X-reset",),
        sensor=Sensor.KERNEL,
        limits=kernel.Limits(),
        judge=kernel.judge_init,
        latched=True,
        runbook="xid.md",
        source="NVRM: RmInitAdapter failed",
    ),
    Rule(
        name=kernel.BLIND,
        covers=("H2",),
        sensor=Sensor.KERNEL,
        scope=Scope.NODE,
        limits=kernel.Limits(),
        judge=kernel.judge_blind,
        raise_n=3,
        raise_m=3,
        runbook="xid.md",
        source="/dev/kmsg needs CAP_SYSLOG where dmesg_restrict is 1",
    ),
)
