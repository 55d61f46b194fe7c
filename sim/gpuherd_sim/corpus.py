"""Traces of GPU faults and of harmless noise, judged by the shipped rules in virtual time.

A trace is a time line over a healthy host: values that change, counters that rise, kernel lines, probe
outcomes. The kernel lines go through the shipped parser, all else through the shipped memory and verdict.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from gpuherd.health import Action, Finding, Verdict
from gpuherd.names import GpuUuid
from gpuherd_agent.port_history import PortHistory
from gpuherd_agent.readings import (
    DevicesReading,
    GpuReading,
    HostReading,
    HungGpu,
    KernelReading,
    LostHandle,
    ProbeOutcome,
    ProbeReading,
)
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule
from gpuherd_agent.sensors.kernel_lines import parse_line
from gpuherd_agent.sensors.kernel_log import SAME_PER_LOOK
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.surroundings import MountReading, MountsReading, MountState, PortReading, PortsReading
from gpuherd_agent.verdict import Judge

_GIB: Final = 2**30
_FIELDS: Final = frozenset(f.name for f in fields(GpuReading))
_HOST_FIELDS: Final = frozenset(f.name for f in fields(HostReading))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a fault has to lead to: this rule, at least this action, at the latest so long after it began."""

    rule: str
    action: Action
    within_s: float
    at_s: float
    gpu: int | None = None
    clears_by_s: float | None = None
    """When it must have ended, None = it need not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One story. ``worst`` bounds what a benign one may lead to."""

    name: str
    source: str
    gpus: int
    for_s: float
    period_s: float
    steps: tuple[Mapping[str, Any], ...]
    expected: Expected | None = None
    worst: Action = Action.WATCH


class TraceInvalid(ValueError):
    """A trace that cannot be played; the text names it."""


def load(path: Path) -> tuple[Trace, ...]:
    """Return the traces of a file; raises TraceInvalid for one without a source or with an unknown word."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_trace(each) for each in raw["trace"])


def _trace(raw: Mapping[str, Any]) -> Trace:
    name = raw.get("name", "?")
    if not raw.get("source"):
        raise TraceInvalid(f"{name}: has no source")
    for step in raw.get("at", ()):
        unknown = [key for key in (*step.get("set", {}), *step.get("rate", {})) if key not in _FIELDS]
        unknown += [key for key in step.get("host", {}) if key not in _HOST_FIELDS]
        if unknown:
            raise TraceInvalid(f"{name}: {', '.join(unknown)} is no reading")
    wanted = raw.get("expect")
    return Trace(
        name=name,
        source=raw["source"],
        gpus=raw.get("gpus", 2),
        for_s=raw["for_s"],
        period_s=raw.get("period_s", 1.0),
        steps=tuple(sorted(raw.get("at", ()), key=lambda step: step["s"])),
        expected=None if wanted is None else Expected(**{**wanted, "action": Action(wanted["action"])}),
        worst=Action(raw.get("worst", "watch")),
    )


@dataclass(slots=True)
class _Host:
    """The host while its trace is played."""

    gpus: list[dict[str, Any]]
    rates: list[dict[str, float]]
    lost: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    hung: dict[int, int] = field(default_factory=dict)
    outcome: ProbeOutcome = ProbeOutcome.OK
    code: int | None = None
    missed: int = 0
    duration_s: float = 0.002
    kernel: list[str] = field(default_factory=list)
    repeat: int = 1
    devices: dict[str, Any] | None = None
    ray_gpus: int | None = None
    host: dict[str, Any] = field(default_factory=dict)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    ports_blind: str = ""
    port_history: PortHistory = field(default_factory=PortHistory)
    mounts: dict[str, str] = field(default_factory=dict)

    def take(self, step: Mapping[str, Any]) -> None:
        """Change what the step says."""
        chosen = range(len(self.gpus)) if step.get("gpu", "all") == "all" else (step["gpu"],)
        for index in chosen:
            self.gpus[index].update(step.get("set", {}))
            self.rates[index].update(step.get("rate", {}))
            if "lost" in step:
                self.lost[index] = step["lost"]
            if step.get("gone"):
                self.gone.add(index)
            if "hung" in step:
                self.hung[index] = step["hung"]
            if step.get("back"):
                self.hung.pop(index, None)
                self.lost.pop(index, None)
                self.gone.discard(index)
        self.outcome = ProbeOutcome(step.get("probe", self.outcome))
        self.code = step.get("code", self.code)
        self.missed = step.get("missed", self.missed)
        self.duration_s = step.get("took_s", self.duration_s)
        self.kernel = list(step.get("kernel", self.kernel if step.get("keep") else ()))
        self.repeat = step.get("repeat", 1)
        self.devices = step.get("devices", self.devices)
        self.ray_gpus = step.get("ray_gpus", self.ray_gpus)
        self.host.update(step.get("host", {}))
        for name, changed in step.get("ports", {}).items():
            self.ports.setdefault(name, {"is_active": True, "gbps": 400.0, "downs_total": 0}).update(changed)
        self.ports_blind = step.get("ports_blind", self.ports_blind)
        self.mounts.update(step.get("mounts", {}))

    def probe(self) -> ProbeReading:
        """Return the probe's cycle."""
        hung = tuple(
            HungGpu(index=i, gpu=self.gpus[i]["gpu"], call="nvmlDeviceGetUUID", missed=n)
            for i, n in sorted(self.hung.items())
        )
        if self.outcome is not ProbeOutcome.OK:
            return ProbeReading(
                outcome=self.outcome,
                code=self.code,
                missed=self.missed,
                duration_s=self.duration_s,
                hung=hung,
            )
        aside = {*self.lost, *self.gone, *self.hung}
        read = [i for i in range(len(self.gpus)) if i not in aside]
        return ProbeReading(
            outcome=ProbeOutcome.OK,
            gpus=tuple(GpuReading(**self.gpus[i]) for i in read),
            lost=tuple(LostHandle(index=i, code=code) for i, code in sorted(self.lost.items())),
            counted=len(self.gpus) - len(self.gone),
            driver="570.86.15",
            duration_s=self.duration_s,
            hung=hung,
        )

    def rise(self, period_s: float) -> None:
        """Let the counters rise by their rates."""
        for gpu, rates in zip(self.gpus, self.rates, strict=True):
            for name, per_s in rates.items():
                gpu[name] = int((gpu.get(name) or 0) + per_s * period_s)

    def ports_reading(self, now: float) -> PortsReading | None:
        """Return a look at the ports, None on a host without."""
        if self.ports_blind:
            return PortsReading(at=now, why_blind=self.ports_blind)
        read = tuple(PortReading(name=name, **port) for name, port in self.ports.items())
        return self.port_history.take(read, now) if read else None

    def mounts_reading(self, now: float) -> MountsReading | None:
        """Return a round over the mounts, None on a host without."""
        found = tuple(MountReading(path=p, state=MountState(state)) for p, state in self.mounts.items())
        return MountsReading(at=now, mounts=found) if found else None

    def kernel_reading(self, now: float) -> KernelReading:
        """Return this look's lines as the shipped parser reads them, storms cut as the sensor cuts them."""
        events = [event for line in self.kernel if (event := parse_line(line)) is not None]
        told = events * min(self.repeat, SAME_PER_LOOK)
        missed = len(events) * max(0, self.repeat - SAME_PER_LOOK)
        self.kernel = []
        return KernelReading(at=now, events=tuple(told), missed=missed)


def healthy(index: int) -> dict[str, Any]:
    """Return the readings of a healthy idle GPU."""
    return {
        "gpu": GpuUuid(f"GPU-{index}"),
        "index": index,
        "pci_bus_id": f"00000000:{index + 1:02X}:00.0",
        "model": "NVIDIA H200",
        "vbios": "96.00.A5.00.01",
        "core_celsius": 45.0,
        "slowdown_celsius": 89.0,
        "shutdown_celsius": 95.0,
        "memory_celsius": 50.0,
        "memory_max_celsius": 95.0,
        "used_bytes": 0,
        "total_bytes": 141 * _GIB,
        "ecc_uncorrected_volatile_total": 0,
        "ecc_corrected_volatile_total": 0,
        "utilisation_ratio": 0.0,
        "power_watts": 80.0,
        "power_limit_watts": 700.0,
        "recovery_action": 0,
        "pids": (),
        "ecc_enabled": True,
        "ecc_pending": True,
        "is_row_remap_pending": False,
        "is_row_remap_failed": False,
        "rows_remapped_uncorrected_total": 0,
        "hw_slowdown": False,
        "power_brake": False,
        "sw_thermal": False,
        "sm_clock_hertz": 1.98e9,
        "sm_clock_max_hertz": 1.98e9,
        "link_width": 16,
        "link_width_max": 16,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_replays_total": 0,
        "nvlinks_up": 18,
        "nvlinks_supported": 18,
        "nvlink_errors_total": 0,
        "fabric_completed": True,
        "is_persistent": True,
        "mig_enabled": False,
        "mig_pending": False,
    }


def all_enforced() -> tuple[Rule, ...]:
    """Return the rules as if every one might act: noise must lead to nothing even then."""
    return tuple(replace(rule, enforce=True) for rule in RULES)


def play(trace: Trace, rules: Sequence[Rule]) -> Iterator[tuple[float, Verdict]]:
    """Yield (second, verdict) for each look of the trace."""
    world = _Host(gpus=[healthy(i) for i in range(trace.gpus)], rates=[{} for _ in range(trace.gpus)])
    sightings, judge = Sightings(), Judge(rules)
    left = list(trace.steps)
    looks = int(trace.for_s / trace.period_s)
    for look in range(looks):
        now = look * trace.period_s
        while left and left[0]["s"] <= now:
            world.take(left.pop(0))
        snapshot = sightings.take(probe=world.probe(), declared=trace.gpus, now=now)
        devices = None if world.devices is None else DevicesReading(at=now, **_devices(world.devices))
        snapshot = replace(
            snapshot,
            host=_host(world),
            kernel=world.kernel_reading(now),
            devices=devices,
            ray_gpus=world.ray_gpus,
            ports=world.ports_reading(now),
            mounts=world.mounts_reading(now),
        )
        yield now, judge.step(snapshot)
        world.rise(trace.period_s)


def _devices(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


def _host(world: _Host) -> HostReading:
    plain: dict[str, Any] = {
        "memory_total_bytes": 2_048 * _GIB,
        "memory_available_bytes": 1_900 * _GIB,
        "disk_total_bytes": 3_000 * _GIB,
        "disk_free_bytes": 2_000 * _GIB,
        "shm_free_bytes": 900 * _GIB,
        "load_1m": 4.0,
        "cpu_count": 192,
        "uptime_s": 86_400.0,
    }
    return HostReading(**{**plain, **world.host})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trace: empty ``why`` = as it should be."""

    trace: Trace
    why: str = ""
    verdict_s: float | None = None
    """Seconds from the fault to its verdict."""


def judge(trace: Trace, rules: Sequence[Rule] | None = None) -> Outcome:
    """Play a trace and hold it against what was expected of it."""
    given = all_enforced() if rules is None else tuple(rules)
    return _fault(trace, trace.expected, given) if trace.expected else _benign(trace, given)


def _benign(trace: Trace, rules: Sequence[Rule]) -> Outcome:
    for now, verdict in play(trace, rules):
        if verdict.action > trace.worst:
            return Outcome(trace=trace, why=f"at {now:g} s: {verdict.action} for {verdict.reason}")
    return Outcome(trace=trace)


def _fault(trace: Trace, expected: Expected, rules: Sequence[Rule]) -> Outcome:
    found_s: float | None = None
    stands = False
    for now, verdict in play(trace, rules):
        stands = any(_is_meant(finding, expected) for finding in verdict.findings)
        if stands and now < expected.at_s:
            return Outcome(trace=trace, why=f"stood at {now:g} s, before the fault")
        if stands and found_s is None:
            found_s = now - expected.at_s
        if expected.clears_by_s is not None and now >= expected.clears_by_s and stands:
            return Outcome(trace=trace, why=f"still stands at {now:g} s", verdict_s=found_s)
    if found_s is None:
        return Outcome(trace=trace, why=f"{expected.rule} never stood with {expected.action}")
    if found_s > expected.within_s:
        return Outcome(
            trace=trace, why=f"found after {found_s:g} s, not {expected.within_s:g}", verdict_s=found_s
        )
    return Outcome(trace=trace, verdict_s=found_s)


def _is_meant(finding: Finding, expected: Expected) -> bool:
    is_gpu = expected.gpu is None or finding.gpu == GpuUuid(f"GPU-{expected.gpu}")
    return finding.rule == expected.rule and finding.action >= expected.action and is_gpu
