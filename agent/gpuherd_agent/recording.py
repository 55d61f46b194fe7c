"""The form of a recording: what the sensors of one node saw at each look, to be judged again. Pure.

A gzip file of JSON lines: a ``Header``, a ``Look`` a line, an ``End``. One without an End was cut off and is
good up to there. ``recorder`` writes it. ``sensors.recorded`` reads it for the agent, which plays it in place
of its host (``[sensors] replay``), and for ``agentctl rules test FILE``, which judges it again.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec

from gpuherd.errors import HerdError
from gpuherd.health import Action, Severity
from gpuherd.names import ClusterName, NodeName
from gpuherd_agent.readings import Snapshot

FORMAT: Final = "gpuherd-recording"
VERSION: Final = 1
LINE_MAX_BYTES: Final = 4 * 1024 * 1024
LOOKS_MAX: Final = 1_000_000
"""More than a week at four looks a second."""


class RecordingInvalid(HerdError):
    """The file is no recording, is of a later version, or is damaged; the text says where."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header"):
    """Whose recording it is. ``wall`` is seconds of the epoch, ``at`` monotonic seconds, at its start."""

    format: str = FORMAT
    version: int = VERSION
    cluster: ClusterName
    node: NodeName
    agent: str
    """The agent's version."""
    boot_id: str
    declared: int
    wall: float
    at: float


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """One look, and what the rules of that day made of it."""

    wall: float
    snapshot: Snapshot
    severity: Severity = Severity.UNKNOWN
    action: Action = Action.NONE
    rules: tuple[str, ...] = ()
    """Names of the rules whose findings stood."""


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Why it ended; ``skipped`` looks are not in it, since the disk did not keep up."""

    why: str
    looks: int
    skipped: int = 0


Line = Header | Look | End

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    """Return one line with its end."""
    return _encoder.encode(line) + b"\n"


def decode(raw: bytes, number: int) -> Line:
    """Return line ``number`` (from 1); raises RecordingInvalid. Fields that are not known are passed over."""
    if len(raw) > LINE_MAX_BYTES:
        raise RecordingInvalid(f"line {number} is longer than {LINE_MAX_BYTES} bytes")
    try:
        line = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordingInvalid(f"line {number}: {error}") from error
    is_first = number == 1
    if is_first is not isinstance(line, Header):
        raise RecordingInvalid(f"line {number} {'is no header' if is_first else 'is a second header'}")
    if isinstance(line, Header) and (line.format, line.version) != (FORMAT, VERSION):
        raise RecordingInvalid(
            f"is {line.format[:40]!r} version {line.version}, not {FORMAT} version {VERSION}"
        )
    return line


class SameAgain:
    """Gives a reading that is told again the identity that it had: a rule counts looks, not lines."""

    def __init__(self) -> None:
        self._before: dict[str, object] = {}

    def restore(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with each repeated reading as the very object that was returned before."""
        kept: dict[str, Any] = {}
        for name in ("host", "devices", "ports", "mounts", "kernel"):
            reading, before = getattr(snapshot, name), self._before.get(name)
            kept[name] = before if before is not None and before == reading else reading
        self._before = kept
        return replace(snapshot, **kept)
