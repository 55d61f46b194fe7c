"""How patient the GPU probe is with the driver."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """Part of ``[gpu]``."""

    backend: str = "nvml"
    """Entry point of the group ``gpuherd.gpu_backends``."""

    deadline_s: float = 5.0
    """How long one cycle may take before the driver counts as hung.

    Eight GPUs take a few milliseconds; a busy host may need a second. Lower finds a hang sooner and
    costs false alarms on a starved host.
    """

    start_deadline_s: float = 30.0
    """How long a fresh child may take to its first answer.

    Without persistence mode the driver wakes each GPU first, which takes seconds apiece.
    """

    wake_deadline_s: float = 10.0
    """How long the driver may take, at the start of a child, to wake one GPU before that one counts as hung.

    A GPU without persistence mode takes seconds. Lower takes a slow start for a hang; higher leaves the
    others unread for longer when a second GPU hangs too.
    """

    backoff_s: float = 5.0
    """Pause before a new child after a failure, and before a GPU that hung is tried again; doubled after each
    further one."""

    backoff_max_s: float = 300.0
    """Longest pause. Higher leaves a mended driver unseen for longer."""
