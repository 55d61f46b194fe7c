"""From an answer to a number, and from a number to nodes. Pure."""

import math
from typing import Final

from gpuherd_autoscaler.triggers.kinds import TriggerMissing
from gpuherd_autoscaler.triggers.settings import MOST_NODES

_ROUNDING: Final = 1e-9
"""A quotient such as 2.0000000000000004 is two nodes."""


def number(value: object) -> float:
    """Return the number that ``value`` is, or says as text; raises TriggerMissing."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TriggerMissing(f"{_shown(value)} is no number")
    try:
        found = float(value)
    except (ValueError, OverflowError):
        raise TriggerMissing(f"{_shown(value)} is no number") from None
    if not math.isfinite(found):
        raise TriggerMissing(f"{found} is no number that nodes can be counted by")
    if found < 0:
        raise TriggerMissing(f"{found:g} is below 0")
    return found


def at_pointer(document: object, pointer: str) -> object:
    """Return the value at a JSON Pointer (RFC 6901); raises TriggerMissing."""
    value = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            raise TriggerMissing(f"the answer has nothing at {pointer[:80]!r} (no {key[:40]!r} there)")
    return value


def one_sample(answer: object) -> object:
    """Return the value in an answer of Prometheus to an instant query; raises TriggerMissing.

    https://prometheus.io/docs/prometheus/latest/querying/api/ (instant queries, result types).
    """
    if not isinstance(answer, dict) or answer.get("status") != "success":
        error = answer.get("error") if isinstance(answer, dict) else None
        raise TriggerMissing(f"Prometheus refuses the query: {_shown(error)}")
    data = answer.get("data")
    kind, result = (data.get("resultType"), data.get("result")) if isinstance(data, dict) else (None, None)
    if not isinstance(result, list):
        raise TriggerMissing("Prometheus gives no result")
    if kind == "scalar":
        sample: object = result
    elif kind != "vector":
        raise TriggerMissing(f"the query gives a {_shown(kind)}, not one number")
    elif not result:
        raise TriggerMissing("the query gives no series")
    elif len(result) > 1:
        raise TriggerMissing(f"the query gives {len(result)} series: make one of them, such as by sum()")
    else:
        sample = result[0].get("value") if isinstance(result[0], dict) else None
    if not isinstance(sample, list) or len(sample) != 2:  # noqa: PLR2004  time and value
        raise TriggerMissing("Prometheus gives no sample")
    return sample[1]


def nodes(value: float, per_node: float) -> int:
    """Return how many nodes stand for ``value``, at most MOST_NODES."""
    return min(MOST_NODES, max(0, math.ceil(value / per_node - _ROUNDING)))


def _shown(value: object) -> str:
    return repr(value)[:80]
