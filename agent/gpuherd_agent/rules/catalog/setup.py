"""How boards are set up: rules, written out."""

from typing import Final

from gpuherd_agent.rules import setup
from gpuherd_agent.rules.rule import Rule, Scope

_LOOKS_OF_A_MINUTE: Final = 60

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        name=setup.PERSISTENCE,
        covers=("P1",),
        limits=setup.Limits(),
        judge=setup.judge_persistence,
        is_read=setup.has_persistence,
        runbook="setup.md",
        source="nvmlDeviceGetPersistenceMode",
    ),
    Rule(
        name=setup.MODE_PENDING,
        covers=("P2", "E9"),
        limits=setup.Limits(),
        judge=setup.judge_mode_pending,
        runbook="setup.md",
        source="nvmlDeviceGetMigMode, nvmlDeviceGetEccMode: current and pending",
    ),
    Rule(
        name=setup.ECC_MIXED,
        covers=("E9",),
        limits=setup.Limits(),
        judge=setup.judge_ecc_mixed,
        runbook="setup.md",
        source="nvmlDeviceGetEccMode",
    ),
    Rule(
        name=setup.VERSIONS_MIXED,
        covers=("P3",),
        scope=Scope.NODE,
        limits=setup.Limits(),
        judge=setup.judge_versions,
        runbook="setup.md",
        source="gcm: vbios_mismatch",
    ),
    Rule(
        name=setup.POWER_UNREADABLE,
        covers=("P4",),
        limits=setup.Limits(),
        judge=setup.judge_power_unreadable,
        raise_n=3,
        raise_m=5,
        runbook="setup.md",
        source="DCGM: POWER_UNREADABLE",
    ),
    Rule(
        name=setup.POWER_ABOVE,
        covers=("P4",),
        limits=setup.Limits(),
        judge=setup.judge_power_above,
        raise_n=_LOOKS_OF_A_MINUTE,
        raise_m=_LOOKS_OF_A_MINUTE,
        runbook="setup.md",
        source="nvmlDeviceGetPowerUsage against the enforced limit",
    ),
)
