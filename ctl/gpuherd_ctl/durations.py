"""Durations as people type them: ``90``, ``90s``, ``1h30m``, ``2d``; and as people read them."""

import argparse
import re
from typing import Final

_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_WHOLE: Final = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def parse_duration(text: str) -> float:
    """Return the seconds that ``text`` stands for; a bare number is seconds.

    Raises argparse.ArgumentTypeError for anything else, and for zero.
    """
    given = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", given):
        seconds = float(given)
    elif _WHOLE.fullmatch(given):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))
    else:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no duration; write 90s, 30m, 1h30m or 2d")
    if seconds <= 0:
        raise argparse.ArgumentTypeError("a duration is longer than zero")
    return seconds


def show_duration(seconds: float | None) -> str:
    """Return at most two units, such as ``1h30m``; a dash when it is not known."""
    if seconds is None:
        return "-"
    left = round(max(0.0, seconds))
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, int(size))
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:  # noqa: PLR2004 (two units are as exact as anybody reads)
            break
    return "".join(parts) or "0s"
