"""Bytes to documents and back: bounded in size and depth, strict about NaN and duplicate keys.

Unknown fields are kept out silently, so that a newer minor version is understood; another major
version is refused.
"""

import hashlib
import json
import math
import re
from typing import Final, TypeVar

import msgspec

from gpuherd.errors import WireInvalid
from gpuherd.wire.documents import VERSION, Document

D = TypeVar("D", bound=Document)

MAX_BYTES: Final = 65_536
MAX_DEPTH: Final = 16
_MAX_DIGITS: Final = 20
_MAX_INTEGER: Final = 2**63

_STRINGS_AND_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


def encode(document: Document) -> bytes:
    """Return the document as JSON with keys in their order of definition."""
    return msgspec.json.encode(document)


def digest(payload: bytes) -> str:
    """Return the short hash by which two versions of one document are told apart (16 hex digits)."""
    return hashlib.sha256(payload).hexdigest()[:16]


def decode(payload: bytes, kind: type[D], *, max_bytes: int = MAX_BYTES) -> D:
    """Return the document in ``payload``.

    Raises WireInvalid with one of the reasons ``oversize, depth, syntax, duplicate_key, number, version,
    fields``. Cost is linear in the payload's size.
    """
    parsed = parse(payload, max_bytes=max_bytes)
    if not isinstance(parsed, dict):
        raise WireInvalid("fields", "a document is a JSON object")
    if parsed.get("v") != VERSION:
        raise WireInvalid("version", f"version {str(parsed.get('v'))[:20]!r}, expected {VERSION}")
    try:
        return msgspec.convert(parsed, kind, strict=True)
    except msgspec.ValidationError as error:
        raise WireInvalid("fields", str(error)[:200]) from error


def parse(payload: bytes, *, max_bytes: int = MAX_BYTES) -> object:
    """Return the JSON value in ``payload`` within our bounds; raises WireInvalid as ``decode`` does."""
    if len(payload) > max_bytes:
        raise WireInvalid("oversize", f"{len(payload)} bytes, at most {max_bytes}")
    if _depth(payload) > MAX_DEPTH:
        raise WireInvalid("depth", f"nested deeper than {MAX_DEPTH}")
    try:
        return json.loads(
            payload,
            object_pairs_hook=_unique,
            parse_float=_finite,
            parse_int=_integer,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:
        raise WireInvalid("syntax", str(error)[:200]) from error


def _depth(payload: bytes) -> int:
    depth = deepest = 0
    for token in _STRINGS_AND_BRACKETS.finditer(payload):
        first = payload[token.start()]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireInvalid("duplicate_key", "an object names one key twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise WireInvalid("number", f"{text[:20]} is out of range")
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _MAX_DIGITS else None
    if value is None or abs(value) >= _MAX_INTEGER:
        raise WireInvalid("number", f"{text[:20]} is out of range")
    return value


def _refuse(text: str) -> float:
    raise WireInvalid("number", f"{text} is not allowed")
