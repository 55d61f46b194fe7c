"""What went wrong with a start, read from what ``ray start`` printed. Pure.

Ray's own last words mislead at times (2.60: a wrong version reads "Could not read 'temp_dir' from GCS"),
so they are quoted and never the only evidence.
"""

import re
from typing import Final

from gpuherd_agent.refusals import JoinRefusal

_SIGNS: Final = (
    ("Version mismatch", JoinRefusal.VERSION_MISMATCH),
    ("Could not read 'temp_dir' from GCS", JoinRefusal.VERSION_MISMATCH),
    ("InvalidAuthToken", JoinRefusal.START_FAILED),
    ("Failed to connect to GCS", JoinRefusal.HEAD_UNREACHABLE),
    ("Failed to get cluster ID from GCS", JoinRefusal.HEAD_UNREACHABLE),
    ("Ray is not able to connect to", JoinRefusal.HEAD_UNREACHABLE),
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_NOISE: Final = re.compile(r"^(Traceback |\s|-+$|$)")
_MOST_LINES: Final = 3
_MOST_CHARACTERS: Final = 600


def judge(log: str, *, otherwise: JoinRefusal) -> tuple[JoinRefusal, str]:
    """Return why the start failed and the last lines that say something; ``otherwise`` without a sign."""
    text = _COLOUR.sub("", log)
    code = next((code for sign, code in _SIGNS if sign in text), otherwise)
    lines = [" ".join(line.split()) for line in text.splitlines() if not _NOISE.match(line)]
    return code, " | ".join(lines[-_MOST_LINES:])[-_MOST_CHARACTERS:] or "it printed nothing"


def is_done(log: str) -> bool:
    """Say whether the launcher has brought its raylet up, whatever became of it later."""
    return "Ray runtime started" in log
