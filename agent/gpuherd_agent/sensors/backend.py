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


HOST: Final = -1
"""Index of a call that concerns no single GPU."""


class Notes(Protocol):
    """Where a backend notes what it is about to do, so that a hang can be pinned to a GPU and a call."""

    def turn_to(self, index: int) -> None:
        """Note which GPU the next calls are for; HOST = none."""
        ...

    def enter(self, call: str) -> None:
        """Note that this call is made now; an empty one = none is under way."""
        ...


class Backend(Protocol):
    """A GPU library, opened once and read once a cycle."""

    def open(self, notes: Notes, ask: "Ask") -> None:
        """Load and initialise the library; raises BackendFailed.

        Each call from now on is noted in ``notes`` before it is made, with the index of its GPU: what
        is not noted is taken for a hang of the whole host. GPUs that ``ask`` leaves out are not touched.
        """
        ...

    def read(self, ask: "Ask") -> ProbeReading:
        """Return the GPUs asked for, with outcome OK; raises BackendFailed when not even a count is had.

        One GPU's trouble is in its own reading or in ``lost`` and never hides another GPU.
        """
        ...

    def close(self) -> None:
        """Let go of the library; never raises."""
        ...


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request: one line of JSON. Indexes in ``skip`` are not touched; ``only`` names the one that is."""

    token: int
    skip: tuple[int, ...] = ()
    only: int | None = None

    def wants(self, index: int) -> bool:
        """Say whether this GPU is to be read."""
        return index not in self.skip and self.only in (None, index)

    @property
    def is_whole(self) -> bool:
        """Say whether every GPU is asked for."""
        return not self.skip and self.only is None


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
