"""What sensors saw around the GPUs: network ports and mounts. Plain values; nothing here judges."""

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortReading:
    """One InfiniBand or RoCE port at one instant; ``name`` is device and port, such as ``mlx5_0/1``.

    Source: Linux Documentation/ABI/stable/sysfs-class-infiniband.
    """

    name: str
    is_active: bool
    state: str = ""
    """The kernel's words, such as ``DOWN, Polling``."""
    is_ethernet: bool = False
    gbps: float | None = None
    downs_total: int | None = None
    """How often its link has gone down since the driver was loaded; None = neither counter is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWatch:
    """A port with what earlier looks add: whether it is to be up, its best rate, its falls of late."""

    port: PortReading
    is_wanted: bool
    """It is named in the settings, or was active before."""
    best_gbps: float | None = None
    recent_downs: int = 0
    """Times that its link went down within the last ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsReading:
    """One look at all ports. ``missing`` are wanted ones that are not there; ``why_blind`` empty = read."""

    at: float
    ports: tuple[PortWatch, ...] = ()
    missing: tuple[str, ...] = ()
    why_blind: str = ""


class MountState(enum.StrEnum):
    """How a mount was found."""

    OK = "ok"
    ABSENT = "absent"
    """Nothing is mounted there."""
    SILENT = "silent"
    """It did not answer within the deadline: its server is gone or does not keep up."""
    FAILED = "failed"
    """It answered with an error, such as a stale handle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountReading:
    """One mount at one instant; ``detail`` are the words of the one who asked."""

    path: str
    state: MountState
    detail: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MountsReading:
    """One round over the mounts that must answer."""

    at: float
    mounts: tuple[MountReading, ...] = ()
