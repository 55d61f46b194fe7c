"""Why a join did not end with a member: one closed list for checks before it and for the start itself."""

import enum
from typing import Final


class JoinRefusal(enum.StrEnum):
    """Reason code of what keeps a node out of Ray, or took it out; each has its own mend."""

    RAY_MISSING = "ray_missing"
    RAY_VERSION = "ray_version"
    PYTHON_VERSION = "python_version"
    VERSION_MISMATCH = "version_mismatch"
    HEAD_UNRESOLVED = "head_unresolved"
    HEAD_REFUSED = "head_refused"
    HEAD_SILENT = "head_silent"
    HEAD_FOREIGN = "head_foreign"
    HEAD_UNREACHABLE = "head_unreachable"
    AUTH_MODE = "auth_mode"
    TOKEN_REFUSED = "token_refused"  # noqa: S105  a reason code
    TOKEN_UNREADABLE = "token_unreadable"  # noqa: S105  the same
    NODE_ADDRESS = "node_address"
    PORT_TAKEN = "port_taken"
    TEMP_DIR = "temp_dir"
    DISK_FULL = "disk_full"
    SHM_SMALL = "shm_small"
    MEMORY_LOW = "memory_low"
    GPU_COUNT = "gpu_count"
    HEALTH = "health"
    START_TIMED_OUT = "start_timed_out"
    START_FAILED = "start_failed"
    NOT_ALIVE = "not_alive"
    RAYLET_GONE = "raylet_gone"


HEAD_FAULTS: Final = frozenset(
    {
        JoinRefusal.HEAD_UNRESOLVED,
        JoinRefusal.HEAD_REFUSED,
        JoinRefusal.HEAD_SILENT,
        JoinRefusal.HEAD_FOREIGN,
        JoinRefusal.HEAD_UNREACHABLE,
    }
)
"""With these another address of the list may do."""
