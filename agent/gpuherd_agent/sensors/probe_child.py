"""The probe's own process: one request line in, one answer line out, until stdin closes.

It imports as little as it can, keeps no state of its own, and never outlives its parent: it ends when
its stdin closes, and by signal when the parent dies while a driver call blocks.
"""

import ctypes
import importlib
import os
import signal
import sys
from typing import BinaryIO, Final

import msgspec

from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.backend import Answer, Ask, Backend, BackendFailed
from gpuherd_agent.sensors.progress import Progress

_PR_SET_PDEATHSIG: Final = 1
"""Source: prctl(2), linux/prctl.h."""


def main() -> None:
    """Serve the backend named ``module:attribute``; the second argument is the descriptor of its place."""
    _die_with_parent()
    serve(_make(sys.argv[1]), Progress(int(sys.argv[2])), sys.stdin.buffer, sys.stdout.buffer)


def serve(backend: Backend, progress: Progress, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request until they end or the backend fails for good.

    The library is opened at the first request and not before, so that a hang in it has a deadline.
    """
    is_open = False
    for line in iter(requests.readline, b""):
        ask = msgspec.json.decode(line, type=Ask)
        try:
            if not is_open:
                backend.open(progress, ask)
                is_open = True
            reading = backend.read(ask)
        except BackendFailed as failed:
            reading = ProbeReading(outcome=ProbeOutcome.NO_DRIVER, code=failed.code)
        progress.enter("")
        answers.write(msgspec.json.encode(Answer(ask.token, reading)) + b"\n")
        answers.flush()
        if reading.outcome is not ProbeOutcome.OK:
            return
    if is_open:
        backend.close()


def _make(reference: str) -> Backend:
    module, _, attribute = reference.partition(":")
    backend: Backend = getattr(importlib.import_module(module), attribute)()
    return backend


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above took effect
        sys.exit(0)


if __name__ == "__main__":
    main()
