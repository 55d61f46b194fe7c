"""What a site's check says: exit code, or JSON on its output, as a reading. Pure.

Exit codes are those of Nagios plugins: 0 fine, 1 warning, 2 critical, 3 unknown. JSON, when the output is
an object, adds what a code cannot say: ``{"status": "critical", "reason": "...", "gpu": "GPU-...", "action":
"drain"}``, each key optional. The output is a stranger's: it is bounded and never trusted beyond its range.
"""

import enum
from dataclasses import dataclass
from typing import Final

import msgspec

from gpuherd.errors import WireInvalid
from gpuherd.health import Action
from gpuherd.names import GpuUuid
from gpuherd.wire.codec import parse

REASON_MAX: Final = 300
_GPU_MAX: Final = 64


class Status(enum.StrEnum):
    """How it is, by the check's word."""

    OK = "ok"
    WARN = "warn"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReading:
    """The last word of one check. ``action`` is what it may lead to, at most a drain."""

    name: str
    status: Status
    action: Action = Action.NONE
    reason: str = ""
    gpu: GpuUuid | None = None
    took_s: float = 0.0


class _Said(msgspec.Struct, frozen=True):
    status: Status | None = None
    reason: str = ""
    gpu: str = ""
    action: Action | None = None


_BY_CODE: Final = {0: Status.OK, 1: Status.WARN, 2: Status.CRITICAL, 3: Status.UNKNOWN}
_USUAL: Final = {
    Status.OK: Action.NONE,
    Status.WARN: Action.WATCH,
    Status.CRITICAL: Action.CORDON,
    Status.UNKNOWN: Action.WATCH,
}


def read(
    name: str, code: int | None, output: str, *, took_s: float = 0.0, enforce: bool = False
) -> SiteReading:
    """Return the reading; ``code`` None = it did not end in time or could not be started.

    Without ``enforce`` nothing stronger than a watch comes of it.
    """
    if code is None:
        why = f"did not end in time ({took_s:.0f} s)" if took_s else output[:REASON_MAX]
        return SiteReading(name=name, status=Status.UNKNOWN, action=Action.WATCH, reason=why, took_s=took_s)
    said = _said(output)
    status = said.status or _BY_CODE.get(code, Status.UNKNOWN)
    if status is Status.OK and code != 0:
        status = _BY_CODE.get(code, Status.UNKNOWN)  # the worse of its two words counts
    wished = _USUAL[status]
    if said.action is not None and status is not Status.OK:
        wished = min(said.action, Action.DRAIN)
    return SiteReading(
        name=name,
        status=status,
        action=wished if enforce else min(wished, Action.WATCH),
        reason=(said.reason or _first_line(output) or f"exit code {code}")[:REASON_MAX],
        gpu=GpuUuid(said.gpu) if said.gpu.startswith("GPU-") and len(said.gpu) <= _GPU_MAX else None,
        took_s=took_s,
    )


def _first_line(output: str) -> str:
    return "" if not output or output.startswith("{") else output.splitlines()[0]


def _said(output: str) -> _Said:
    """Return what its JSON says; nothing when it is none, or not ours."""
    if not output.startswith("{"):
        return _Said()
    try:
        return msgspec.convert(parse(output.encode()), _Said, strict=True)
    except (WireInvalid, msgspec.ValidationError):
        return _Said(status=Status.UNKNOWN, reason="its JSON is not understood")
