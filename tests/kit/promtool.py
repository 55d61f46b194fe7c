"""Prometheus' own checker."""

import shutil
import subprocess

import pytest


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it; skips the test on a machine without it."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian package: prometheus)")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120)
