"""``[sensors]``: what is read beside the GPUs' driver."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSettings:
    """Keys under ``[sensors]``."""

    kernel_log: str = "/dev/kmsg"
    """Where the kernel's lines come from; a text file works too. Empty = not read: Xids then go unseen, and a
    GPU that falls off the bus while its driver hangs is found later."""
    root: str = "/"
    """Below it ``sys/bus/pci``, ``proc/driver/nvidia`` and ``dev`` are read; another one only for tests."""
