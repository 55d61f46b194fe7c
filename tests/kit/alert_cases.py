"""Rows of ``tests/docs/alert_cases.toml`` as the input of ``promtool test rules``."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kit.repository import ROOT

TABLE: Final = ROOT / "tests" / "docs" / "alert_cases.toml"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_GOOD_STEPS: Final = 40
_MARGIN: Final = 2
"""Steps before and after an edge at which it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row; durations are steps."""

    alert: str
    step_s: int
    labels: Mapping[str, str]
    summary: str
    wait: int = 0
    keep: int = 0
    lag: int = 0
    tail: int = 0
    flap: bool = True
    always: bool = False
    value: str | None = None
    good: Mapping[str, str] = field(default_factory=dict)
    bad: Mapping[str, str] = field(default_factory=dict)
    never: tuple[Mapping[str, str], ...] = ()


def cases() -> dict[str, Case]:
    """Return the rows by alert; a second row of an alert is an error."""
    found: dict[str, Case] = {}
    for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["case"]:
        step_s = seconds(row.pop("step"))
        spans = {
            key: -(-seconds(row.pop(key)) // step_s) for key in ("wait", "keep", "lag", "tail") if key in row
        }
        never = tuple(row.pop("never", ()))
        assert row["alert"] not in found, row["alert"]
        found[row["alert"]] = Case(step_s=step_s, never=never, **spans, **row)
    return found


def seconds(text: str) -> int:
    """Return a duration as Prometheus writes it."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


def trials(case: Case, rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield promtool's tests of one alert."""
    if case.always:
        yield _test(case, rule, "fires always", {}, {4: True, 8: True})
        return
    begins = _GOOD_STEPS
    fires = begins + case.lag + case.wait
    ends = fires + 2 * _MARGIN
    silent = ends + case.tail + case.keep
    pattern = [(case.good, begins), (case.bad, ends - begins), (case.good, silent - ends + 2 * _MARGIN)]
    checks = {begins - 1: False, fires + _MARGIN: True, silent + _MARGIN: False}
    if case.lag + case.wait > _MARGIN:
        checks[fires - _MARGIN] = False
    if case.keep > _MARGIN:
        checks[ends + case.tail + case.keep - _MARGIN] = True
    yield _test(case, rule, "fires after its wait, and ends", _series(pattern), checks)
    if case.flap:
        short = max(1, case.wait - case.tail - 1)
        calm = case.tail + case.lag + 2
        flapping = [(case.good, begins), *[(case.bad, short), (case.good, calm)] * 3]
        looks = {
            begins + i * (short + calm) + at: False for i in range(3) for at in (0, short, short + calm - 1)
        }
        yield _test(case, rule, "stays silent on flaps", _series(flapping), looks)
    for number, series in enumerate(case.never, start=1):
        length = 3 * max(case.wait + case.lag, 4)
        looks = dict.fromkeys(range(2, length, max(1, length // 4)), False)
        yield _test(
            case, rule, f"stays silent on what is no cause, {number}", _series([(series, length)]), looks
        )


def _series(pattern: list[tuple[Mapping[str, str], int]]) -> dict[str, str]:
    """Return the samples of each series, one for each step."""
    names = {name for values, _ in pattern for name in values}
    made = {}
    for name in sorted(names):
        samples: list[str] = []
        total = 0
        for values, steps in pattern:
            given = values.get(name, "_")
            for _ in range(steps):
                if given.startswith("+"):
                    total += int(given[1:])
                elif given != "_" and any(v.get(name, "").startswith("+") for v, _ in pattern):
                    total = max(total, int(given))
                is_counter = any(v.get(name, "").startswith("+") for v, _ in pattern)
                samples.append("_" if given == "_" else str(total) if is_counter else given)
        made[name] = " ".join(samples)
    return made


def _test(
    case: Case,
    rule: Mapping[str, Any],
    what: str,
    series: Mapping[str, str],
    checks: Mapping[int, bool],
) -> dict[str, Any]:
    return {
        "name": f"{case.alert} {what}",
        "interval": f"{case.step_s}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{step * case.step_s}s",
                "alertname": case.alert,
                "exp_alerts": [_expected(case, rule)] if is_firing else [],
            }
            for step, is_firing in sorted(checks.items())
        ],
    }


def _expected(case: Case, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the alert says, with what its texts ask for filled in from the row."""
    texts = {key: _filled(text, case) for key, text in rule["annotations"].items()}
    return {
        "exp_labels": {**rule["labels"], **case.labels},
        "exp_annotations": {**texts, "summary": case.summary},
    }


def _filled(text: str, case: Case) -> str:
    for label, value in case.labels.items():
        text = text.replace("{{ $labels." + label + " }}", value)
    return text if case.value is None else text.replace("{{ $value }}", case.value)
