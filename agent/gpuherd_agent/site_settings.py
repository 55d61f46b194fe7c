"""Settings of what a site adds: sections ``[checks]``, ``[hooks]`` and ``[preflight]`` of ``agent.toml``."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """``[checks]``: executables of the site whose word becomes a finding."""

    folder: str = ""
    """Such as ``/etc/gpuherd/checks.d``; unset = there are none. Every executable in it is run in turn."""
    period_s: float = 60.0
    """From one round to the next. Shorter finds trouble sooner and costs what the checks cost."""
    deadline_s: float = 30.0
    """How long one check may take. Too short makes a slow file server look like a sick node; too long lets
    one check that hangs keep all others waiting."""
    enforce: bool = False
    """Whether a critical result keeps work from the node. Off, it is only told: switch it on once the checks
    have run for a while without a false alarm."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if self.folder and not self.folder.startswith("/"):
            yield "folder", "is no absolute path"
        for key in ("period_s", "deadline_s"):
            if getattr(self, key) <= 0:
                yield key, "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """``[hooks]``: executables of the site that are told of a step, each by its own name in one folder."""

    folder: str = ""
    """Such as ``/etc/gpuherd/hooks.d``; unset = there are none. Known names: ``pre-join`` (only its exit
    code 0 lets the node join), ``pre-drain``, ``post-leave`` and ``on-verdict`` (whatever they say, the step
    goes on)."""
    pre_join_s: float = 60.0
    """Deadline. Past it the node does not join and tries again later."""
    pre_drain_s: float = 10.0
    """Deadline. It delays the drain of a sick node by as much: keep it short."""
    post_leave_s: float = 60.0
    """Deadline. The node can only rejoin when the hook has ended."""
    on_verdict_s: float = 10.0
    """Deadline. While one runs, only the newest verdict waits behind it."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if self.folder and not self.folder.startswith("/"):
            yield "folder", "is no absolute path"
        for key in ("pre_join_s", "pre_drain_s", "post_leave_s", "on_verdict_s"):
            if getattr(self, key) <= 0:
                yield key, "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSettings:
    """``[preflight]``: what is done before a join beyond looking."""

    smoke: bool = False
    """Let each GPU do a little work (copy, compute, compare) before each join. It finds a GPU that answers
    and computes wrong; it costs about a second a GPU and loads CUDA, so it is off unless asked for."""
    smoke_deadline_s: float = 60.0
    """Deadline for one GPU. CUDA's first start takes seconds without persistence mode; past the deadline the
    GPU counts as hung and the node does not join."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if self.smoke_deadline_s <= 0:
            yield "smoke_deadline_s", "must be above 0"
