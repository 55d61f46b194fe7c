"""What simulated GPUs report, and when that changes: the model and its grammar. Pure.

A scenario is TOML. Every key may be left out::

    host = "node-1"            # seed of the UUIDs: another host, other GPUs
    gpus = 8
    driver = "580.95.05"
    all.core_celsius = 45      # a value of every GPU
    gpu.3.core_celsius = 91    # ... and of one
    gpu.5.call.nvmlDeviceGetPowerUsage.error = 999   # one call on one GPU fails with this NVML code
    gpu.5.field.230.error = 3  # one field value fails
    call.nvmlInitWithFlags.error = 9                 # one call fails on the whole host

    [[at]]                     # the time line: from 20 s after the start on
    s = 20
    gpu.3.error = 15           # every call on GPU 3 says "lost"

    [[at]]
    s = 40
    hang_s = inf               # each call blocks; also gpu.N.hang_s, call.NAME.hang_s

``gpu.N.gone = true`` takes a GPU out, so that the ones behind it move up; ``hang_blocks_term = true``
makes a hanging process deaf to SIGTERM, as one in state D is. Later entries win over earlier ones.
"""

import math
import re
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpuherd.errors import ConfigInvalid

Value = int | float | str | tuple[int, ...]

MAX_GPUS: Final = 64
_NAMESPACE: Final = uuid.UUID("5f0c5c2e-7a35-5f4f-9a0e-5a3f5cf1a7d1")

DEFAULTS: Final[Mapping[str, Value]] = {
    "gpus": 8,
    "driver": "580.95.05",
    "all.model": "NVIDIA H200",
    "all.core_celsius": 45,
    "all.memory_celsius": 50,
    "all.slowdown_celsius": 89,
    "all.shutdown_celsius": 92,
    "all.memory_max_celsius": 95,
    "all.margin_celsius": 42,
    "all.slowdown_offset_celsius": -2,
    "all.used_bytes": 0,
    "all.total_bytes": 150_754_820_096,
    "all.reserved_bytes": 629_145_600,
    "all.ecc_uncorrected_volatile": 0,
    "all.ecc_uncorrected_aggregate": 0,
    "all.ecc_corrected_volatile": 0,
    "all.ecc_corrected_aggregate": 0,
    "all.utilisation_percent": 0,
    "all.power_watts": 75,
    "all.recovery_action": 0,
    "all.serial": "1650300000000",
    "all.vbios": "96.00.D0.00.02",
    "all.persistence": 1,
    "all.link_width": 16,
    "all.link_width_max": 16,
    "all.rows_remapped_corrected": 0,
    "all.rows_remapped_uncorrected": 0,
    "all.row_remap_pending": 0,
    "all.row_remap_failed": 0,
    "all.sm_clock_mhz": 345,
    "all.memory_clock_mhz": 3_201,
    "all.energy_joules": 1_000,
    "all.pcie_replays": 0,
    "all.memory_utilisation_percent": 0,
    "all.encoder_percent": 0,
    "all.decoder_percent": 0,
    "all.ecc_mode": 1,
    "all.ecc_mode_pending": 1,
    "all.mig_mode": 0,
    "all.mig_mode_pending": 0,
    "all.power_limit_watts": 700,
    "all.sm_clock_max_mhz": 1_980,
    "all.pcie_generation": 5,
    "all.pcie_generation_max": 5,
    "all.clock_reasons": 1,
    "all.nvlinks": 18,
    "all.nvlinks_up": 18,
}
"""A healthy idle H200 host. ``margin_celsius`` and its offset are NVML's own (T.Limit, field 194)."""

_TEXTS: Final = frozenset({"driver", "model", "uuid", "pci_bus_id", "serial", "vbios"})
_VALUES: Final = (
    *(key.removeprefix("all.") for key in DEFAULTS if key.startswith("all.")),
    "uuid",
    "pci_bus_id",
    "pids",
)
_CALL: Final = r"call\.nvml[A-Za-z0-9_]+\.(?:error|hang_s)"
_KEY: Final = re.compile(
    rf"gpus|driver|hang_s|hang_blocks_term|{_CALL}"
    rf"|(?:all|gpu\.\d{{1,2}})\.(?:{'|'.join(_VALUES)}|error|hang_s|gone|{_CALL}|field\.\d{{1,4}}\.error)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """``key`` has this value from ``at_s`` on."""

    key: str
    value: Value
    at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Settings in order of precedence, the last one in force wins.

    ``started_at`` is the boot time (CLOCK_BOOTTIME seconds) of second 0 of the time line; None = when a
    reader first sees the file.
    """

    host: str = "gpu-host"
    settings: tuple[Setting, ...] = ()
    started_at: float | None = None

    def having(self, changes: Mapping[str, Value], *, at_s: float = 0.0) -> "Scenario":
        """Return the scenario with these settings in force from ``at_s`` on, over all that it had.

        Raises ConfigInvalid for keys and values outside the grammar.
        """
        problems = {key: why for key, value in changes.items() if (why := _problem(key, value))}
        if problems:
            raise ConfigInvalid(problems)
        more = tuple(Setting(key=key, value=value, at_s=at_s) for key, value in changes.items())
        return replace(self, settings=(*self.settings, *more))

    def with_lost(self, gpu: int, *, at_s: float = 0.0) -> "Scenario":
        """Return the scenario in which GPU number ``gpu`` has fallen off the bus (GPU_IS_LOST)."""
        return self.having({f"gpu.{gpu}.error": 15}, at_s=at_s)

    def with_hang(self, hang_s: float = math.inf, *, at_s: float = 0.0) -> "Scenario":
        """Return the scenario in which each driver call blocks; 0 = it does no longer."""
        return self.having({"hang_s": hang_s}, at_s=at_s)

    def every_setting(self) -> tuple[Setting, ...]:
        """Return defaults, UUIDs and own settings, in order of precedence."""
        return (
            *(Setting(key=key, value=value) for key, value in DEFAULTS.items()),
            *(Setting(key=f"gpu.{i}.uuid", value=gpu_uuid(self.host, i)) for i in range(self._largest())),
            *self.settings,
        )

    def in_force(self, elapsed_s: float) -> dict[str, Value]:
        """Return each key's value this long after the start."""
        return {s.key: s.value for s in self.every_setting() if s.at_s <= elapsed_s}

    def _largest(self) -> int:
        counts = [s.value for s in self.settings if s.key == "gpus" and isinstance(s.value, int)]
        return max([*counts, int(str(DEFAULTS["gpus"]))])


def gpu_uuid(host: str, index: int) -> str:
    """Return the UUID of a host's GPU: the same in every run, another on every host."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{host}/{index}')}"


def parse(text: str) -> Scenario:
    """Return the scenario in ``text``; raises ConfigInvalid with every problem."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid({"scenario": f"is not TOML: {error}"}) from error
    problems: dict[str, str] = {}
    host, started_at = table.pop("host", "gpu-host"), table.pop("started_at", None)
    if not isinstance(host, str):
        problems["host"] = "is a text"
    if not isinstance(started_at, int | float | None):
        problems["started_at"] = "is a number of seconds"
    steps = table.pop("at", [])
    settings = [*_settings(table, 0.0, problems)]
    for number, step in enumerate(steps if isinstance(steps, list) else [steps]):
        at_s = step.pop("s", None) if isinstance(step, dict) else None
        if not isinstance(at_s, int | float):
            problems[f"at[{number}].s"] = "each [[at]] has its second"
            continue
        settings.extend(_settings(step, float(at_s), problems))
    if problems:
        raise ConfigInvalid(problems)
    return Scenario(host=host, settings=tuple(settings), started_at=started_at)


def dump(scenario: Scenario) -> str:
    """Return TOML that parses to the same scenario."""
    lines = [f"host = {_toml(scenario.host)}"]
    if scenario.started_at is not None:
        lines.append(f"started_at = {scenario.started_at!r}")
    seen: set[str] = set()
    at_s = 0.0
    for setting in scenario.settings:
        if setting.at_s != at_s or setting.key in seen:
            at_s, seen = setting.at_s, set()
            lines += ["", "[[at]]", f"s = {at_s!r}"]
        seen.add(setting.key)
        lines.append(f"{setting.key} = {_toml(setting.value)}")
    return "\n".join(lines) + "\n"


def _settings(table: Mapping[str, object], at_s: float, problems: dict[str, str]) -> Iterator[Setting]:
    for key, value in _flat(table, ""):
        kept: object = tuple(value) if isinstance(value, list) else value
        why = _problem(key, kept)
        if why:
            problems[key] = why
        elif isinstance(kept, int | float | str | tuple):
            yield Setting(key=key, value=kept, at_s=at_s)


def _flat(table: Mapping[str, object], path: str) -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield path + key, value


def _problem(key: str, value: object) -> str:
    """Return why this setting is outside the grammar, or an empty string."""
    if _KEY.fullmatch(key) is None:
        return "unknown key"
    leaf = key.rpartition(".")[2]
    if leaf in _TEXTS:
        return "" if isinstance(value, str) and "\n" not in value else "is a text of one line"
    if leaf == "pids":
        whole = isinstance(value, tuple) and all(isinstance(pid, int) for pid in value)
        return "" if whole else "is a list of process ids"
    if not isinstance(value, int | float) or math.isnan(value):
        return "is a number"
    if key == "gpus" and not (isinstance(value, int) and 0 <= value <= MAX_GPUS):
        return f"is a whole number from 0 to {MAX_GPUS}"
    return ""


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return repr(value)
