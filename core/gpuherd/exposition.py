"""Metrics as Prometheus text: what a family is, and how its samples are written. Pure.

Names are an interface: a STABLE one changes only with a major version. Units are base units, ratios run
from 0 to 1, states are one series each with 0 or 1, and a value that is not known is left out.
Format: Prometheus text exposition format 0.0.4.
"""

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Kind(enum.StrEnum):
    """Type in the text format."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Stability(enum.StrEnum):
    """What a dashboard may rely on."""

    STABLE = "stable"
    ALPHA = "alpha"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family. Labels are of bounded sets only: uuid, and words of this code base."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    stability: Stability = Stability.STABLE


def gauge(name: str, text: str, *labels: str) -> Metric:
    """Return a family of values that go up and down."""
    return Metric(name=f"gpuherd_{name}", kind=Kind.GAUGE, help=text, labels=labels)


def counter(name: str, text: str, *labels: str) -> Metric:
    """Return a family of counts since the start."""
    return Metric(name=f"gpuherd_{name}", kind=Kind.COUNTER, help=text, labels=labels)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series: values of the family's labels in the catalogue's order, and its value."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


def known(name: str, value: float | None, labels: tuple[str, ...] = ()) -> Iterator[Sample]:
    """Yield the sample unless its value is not known."""
    if value is not None:
        yield Sample(name, value, labels)


def render(catalogue: Sequence[Metric], samples: Iterable[Sample]) -> bytes:
    """Return the page: families in the catalogue's order, those without a value left out."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        if not math.isnan(sample.value):
            found.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for metric in catalogue:
        series = found.get(metric.name)
        if series:
            lines += _family(metric, series)
    return ("\n".join(lines) + "\n").encode()


def _family(metric: Metric, series: list[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind.value}"
    for sample in series:
        pairs = zip(metric.labels, sample.labels, strict=True)
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
        yield f"{metric.name}{'{' + labels + '}' if labels else ''} {_number(sample.value)}"


def _number(value: float) -> str:
    """Whole numbers without a point; ``True`` is 1."""
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
