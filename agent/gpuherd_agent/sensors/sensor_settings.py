"""``[sensors]``: what is read beside the GPUs' driver."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MOUNTS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSettings:
    """Keys under ``[sensors]``."""

    kernel_log: str = "/dev/kmsg"
    """Where the kernel's lines come from; a text file works too. Empty = not read: Xids then go unseen, and a
    GPU that falls off the bus while its driver hangs is found later."""
    root: str = "/"
    """Below it ``sys/bus/pci``, ``sys/class/infiniband``, ``proc/driver/nvidia``, ``proc/self/mountinfo`` and
    ``dev`` are read; another one only for tests."""
    replay: str = ""
    """A recording that is played in place of this host: GPUs, kernel log and all else are as they were then.
    For trying settings; what is found leads to the same acts as ever, so never on a host that works."""
    ports: tuple[str, ...] = ()
    """InfiniBand or RoCE ports that must be up, such as ``mlx5_0`` or ``mlx5_0/1``. Unset = each that was up
    since the agent's start: a port that was down before is then not missed, and one that you unplug for good
    is, until the agent restarts."""
    mounts: tuple[str, ...] = ()
    """Mounts that must answer, such as ``/scratch``; at most 16. One that is left out can hang every job of
    the node unseen; one that jobs do without makes the node look sick with its file server."""
    mount_period_s: float = 30.0
    """From one round over the mounts to the next. Shorter finds a dead server sooner, and asks it more."""
    mount_deadline_s: float = 10.0
    """How long a mount may take to answer. Too short makes a busy server look dead."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if len(self.mounts) > MOUNTS_MAX:
            yield "mounts", f"has {len(self.mounts)} entries, at most {MOUNTS_MAX} are watched"
        for path in self.mounts:
            if not path.startswith("/") or (path != "/" and path.endswith("/")):
                yield "mounts", f"{path!r} is no absolute path without a slash at its end"
        for key in ("mount_period_s", "mount_deadline_s"):
            if getattr(self, key) <= 0:
                yield key, "must be above 0"
