"""How the board is set up, where that is not how it should be: persistence, MIG, ECC, power, fans. Pure.

Told to people and never acted upon: a setting is no fault of the board.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import GpuReading, Snapshot

PERSISTENCE: Final = "persistence_off"
MODE_PENDING: Final = "mode_pending"
ECC_MIXED: Final = "ecc_mixed"
VERSIONS_MIXED: Final = "vbios_mixed"
POWER_UNREADABLE: Final = "power_unreadable"
POWER_ABOVE: Final = "power_above_limit"
FAN: Final = "fan"

_HOT_CELSIUS: Final = 70.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.setup]``."""

    power_above_ratio: float = 1.1
    """Draw over the enforced limit that is borne; short peaks are normal."""


def has_persistence(gpu: GpuReading) -> bool:
    """Say whether the driver tells of persistence mode."""
    return gpu.is_persistent is not None


def judge_persistence(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that the driver may unload: its first call then takes seconds."""
    del limits
    for gpu in _gpus(snapshot):
        if gpu.is_persistent is False:
            yield _told(
                PERSISTENCE, gpu, "persistence mode is off: `nvidia-smi -pm 1`, or nvidia-persistenced"
            )


def judge_mode_pending(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose MIG or ECC mode changes at its next reset."""
    del limits
    for gpu in _gpus(snapshot):
        pairs = (("MIG", gpu.mig_enabled, gpu.mig_pending), ("ECC", gpu.ecc_enabled, gpu.ecc_pending))
        for name, now, then in pairs:
            if now is not None and then is not None and now is not then:
                words = f"{name} is {_on(now)} and will be {_on(then)} after a reset"
                yield _told(MODE_PENDING, gpu, words)


def judge_ecc_mixed(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU without ECC on a host where others of its model have it."""
    del limits
    with_ecc = {gpu.model for gpu in _gpus(snapshot) if gpu.ecc_enabled}
    for gpu in _gpus(snapshot):
        if gpu.ecc_enabled is False and gpu.model in with_ecc:
            yield _told(ECC_MIXED, gpu, "ECC is off, and on for others of its model on this host")


def judge_versions(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when boards of one model on this host run different VBIOS versions."""
    del limits
    by_model: dict[str, set[str]] = {}
    for gpu in _gpus(snapshot):
        if gpu.model and gpu.vbios:
            by_model.setdefault(gpu.model, set()).add(gpu.vbios)
    for model, versions in sorted(by_model.items()):
        if len(versions) > 1:
            yield Finding(
                rule=VERSIONS_MIXED,
                severity=Severity.WARN,
                action=Action.WATCH,
                repair=Repair.INSPECT,
                reason=f"{model} boards of this host run VBIOS {', '.join(sorted(versions))}",
            )


def judge_power_unreadable(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose power draw the driver offers and cannot read."""
    del limits
    for gpu in _gpus(snapshot):
        if "power_watts" in gpu.errors:
            yield _told(POWER_UNREADABLE, gpu, f"power cannot be read: NVML {gpu.errors['power_watts']}")


def judge_power_above(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU that draws more than its limit allows."""
    for gpu in _gpus(snapshot):
        now, most = gpu.power_watts, gpu.power_limit_watts
        if now is not None and most and now > limits.power_above_ratio * most:
            yield _told(POWER_ABOVE, gpu, f"draws {now:.0f} W, above its limit of {most:.0f} W")


def judge_fan(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each hot GPU whose fan stands still or cannot be read."""
    del limits
    for gpu in _gpus(snapshot):
        is_hot = gpu.core_celsius is not None and gpu.core_celsius > _HOT_CELSIUS
        if is_hot and (gpu.fan_ratio == 0 or "fan_ratio" in gpu.errors):
            yield _told(FAN, gpu, f"its fan does not turn at {gpu.core_celsius:.0f} °C")


def _gpus(snapshot: Snapshot) -> tuple[GpuReading, ...]:
    return snapshot.probe.gpus if snapshot.probe else ()


def _on(value: bool) -> str:
    return "on" if value else "off"


def _told(rule: str, gpu: GpuReading, words: str) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.WARN,
        action=Action.WATCH,
        repair=Repair.INSPECT,
        reason=f"GPU {gpu.gpu}: {words}",
        gpu=gpu.gpu,
    )
