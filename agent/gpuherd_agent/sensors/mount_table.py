"""The kernel's table of mounts, /proc/self/mountinfo. Pure. Reading it asks no file server anything."""

import re
from typing import Final

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_POINT: Final = 4
"""Field of the mount point. Source: proc_pid_mountinfo(5)."""


def parse_mount_points(text: str) -> frozenset[str]:
    """Return where something is mounted; a line that is no entry is passed over."""
    rows = [line.split(" ") for line in text.splitlines()]
    return frozenset(_plain(row[_POINT]) for row in rows if len(row) > _POINT)


def _plain(escaped: str) -> str:
    """Return the path with the kernel's octal escapes (space, tab, newline, backslash) undone."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), escaped)
