"""Keeps out of a daemon what other packages import only because it happens to be installed."""

import sys


def refuse_rich() -> None:
    """Make ``import rich`` fail in this process; call it before anything imports structlog.

    structlog's console renderer imports rich whenever it is installed: 0.24 s and several MiB that a
    daemon has no use for. It falls back to its own plain renderer.
    """
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None = "not importable", see import system
