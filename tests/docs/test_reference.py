"""The reference is what the code says."""

import subprocess
import sys

from tests.kit.repository import ROOT


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
