"""What the probe child needs of a GPU library, and how a backend is found by name.

Runs inside the child only, where a call may hang for ever; the parent never calls a backend.
"""

from typing import Final, Protocol

import msgspec

from gpuherd_agent.readings import ProbeReading

GROUP: Final = "gpuherd.gpu_backends"
"""Entry point group. Each entry is a callable without arguments that returns a Backend."""


class BackendFailed(Exception):
    """The library gives no readings at all; ``code`` is the NVML return code.

    State afterwards: this process is of no more use, since a library keeps what it learnt of a driver;
    a fresh one may succeed.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML code {code}")
        self.code = code


class BackendUnknown(LookupError):
    """No installed distribution offers a backend of this name; the message lists those there are."""


class Backend(Protocol):
    """A GPU library, opened once and read once a cycle."""

    def open(self) -> None:
        """Load and initialise the library; raises BackendFailed."""
        ...

    def read(self) -> ProbeReading:
        """Return all GPUs now, with outcome OK; raises BackendFailed when not even a count is had.

        One GPU's trouble is in its own reading or in ``lost`` and never hides another GPU.
        """
        ...

    def close(self) -> None:
        """Let go of the library; never raises."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """The child's reply to the request with this token: one line of JSON."""

    token: int
    reading: ProbeReading


def reference(name: str) -> str:
    """Return where the backend ``name`` is defined, as ``module:attribute``; raises BackendUnknown.

    The parent looks it up, so that the child need not import the packaging metadata (about 5 MiB).
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  see the docstring

    entries = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise BackendUnknown(
            f"no GPU backend {name!r}; installed are: {', '.join(sorted(entries)) or 'none'}"
        )
    return entries[name]
