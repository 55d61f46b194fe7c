"""The ports of one raylet, pinned by ``port_base``: which daemon listens where. Pure."""

from typing import Final

from gpuherd_agent.actuators.ray_settings import RaySettings

FIXED: Final = (
    ("node-manager-port", "node manager"),
    ("object-manager-port", "object manager"),
    ("runtime-env-agent-port", "runtime-env agent"),
    ("metrics-export-port", "metrics"),
    ("dashboard-agent-grpc-port", "dashboard agent, gRPC"),
    ("dashboard-agent-listen-port", "dashboard agent, HTTP"),
)
"""(option of ``ray start``, what listens), at ``port_base`` + index. Names as in Ray 2.49 to 2.60."""

WORKERS_AT: Final = 10
"""Workers' ports begin at ``port_base`` + this."""


def fixed_ports(settings: RaySettings) -> dict[int, str]:
    """Return what listens on each pinned port; nothing while Ray chooses by itself."""
    if settings.port_base is None:
        return {}
    return {settings.port_base + at: use for at, (_, use) in enumerate(FIXED)}


def arguments(settings: RaySettings) -> tuple[str, ...]:
    """Return the options that pin them."""
    base = settings.port_base
    if base is None:
        return ()
    first = base + WORKERS_AT
    return (
        *(f"--{option}={base + at}" for at, (option, _) in enumerate(FIXED)),
        f"--min-worker-port={first}",
        f"--max-worker-port={first + settings.worker_ports - 1}",
    )
