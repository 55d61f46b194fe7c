"""Exit codes of agentctl: a script can tell what to do next from the number alone."""

import enum
from collections.abc import Sequence


class ExitCode(enum.IntEnum):
    """What became of the command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    """Some of the named nodes, not all."""
    REFUSED = 4
    """A safety rule stands in the way: budget, fuse, quorum, another's hold."""
    PRECONDITION = 5
    """Something has to be done first."""
    TIMED_OUT = 6
    """Waiting ended; the operation goes on."""
    UNREACHABLE = 7
    NOT_FOUND = 8
    CONFLICT = 9
    DETACHED = 130
    """Interrupted from the keyboard; what was asked for goes on."""


def merge(codes: Sequence[ExitCode]) -> ExitCode:
    """Return one code for several nodes: their common one, or PARTIAL when only some were done."""
    kinds = set(codes)
    if not kinds:
        return ExitCode.DONE
    if len(kinds) == 1:
        return codes[0]
    return ExitCode.PARTIAL if ExitCode.DONE in kinds else ExitCode.FAILED


_BY_STATUS = {
    400: ExitCode.USAGE,
    403: ExitCode.REFUSED,
    404: ExitCode.NOT_FOUND,
    405: ExitCode.USAGE,
    409: ExitCode.CONFLICT,
    412: ExitCode.PRECONDITION,
    413: ExitCode.USAGE,
    415: ExitCode.USAGE,
    422: ExitCode.USAGE,
    428: ExitCode.PRECONDITION,
    502: ExitCode.UNREACHABLE,
    503: ExitCode.UNREACHABLE,
    504: ExitCode.TIMED_OUT,
}


_BY_CODE = {
    "refused": ExitCode.REFUSED,
    "precondition": ExitCode.PRECONDITION,
    "not_found": ExitCode.NOT_FOUND,
    "conflict": ExitCode.CONFLICT,
}


def of_problem(status: int, code: str) -> ExitCode:
    """Return the exit code for an answer of the API: its own word first, then the HTTP status."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status, ExitCode.FAILED)
