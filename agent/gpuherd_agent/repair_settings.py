"""Settings of repairs: section ``[repair]`` of ``agent.toml``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings:
    """``[repair]``: what a machine may do about a sick host. Off, it is only planned and told."""

    reset_gpu: bool = False
    """A reset of one GPU that no process holds. It ends whatever still uses the GPU unseen."""
    reboot: bool = False
    """A reboot of the host, at most once in 6 h, with nobody logged in and no process on a GPU. It ends
    everything else that runs there."""
