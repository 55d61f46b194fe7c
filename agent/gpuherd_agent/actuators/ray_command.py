"""The command line and the environment of ``ray start`` for one join. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuherd.names import ClusterName, NodeName, PoolName
from gpuherd_agent.actuators import ray_ports
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.doors import JoinOrder

MARK: Final = "GPUHERD_RAYLET_OF"
"""Variable by which every process of our raylet's tree is known, workers and strays included."""

_NOT_FOR_RAY: Final = (
    "CREDENTIALS_DIRECTORY",  # the agent's secrets; tasks inherit the raylet's environment
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_PID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "RAY_ADDRESS",
    "RAY_AUTH_TOKEN",
    "RAY_OVERRIDE_RESOURCES",
)
_RECONNECT_S: Final = 600
"""Ray's default lets raylets die 60 s after the head went: a head's restart would cost all running work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose raylet it is. ``agent`` tells two agents on one host apart (each has its own state folder)."""

    cluster: ClusterName
    node: NodeName
    pool: PoolName
    agent: str

    @property
    def mark(self) -> str:
        """Return the value of MARK."""
        return f"{self.cluster}/{self.node}:{self.agent}"


def arguments(settings: RaySettings, order: JoinOrder) -> tuple[str, ...]:
    """Return what follows the ``ray`` command.

    ``--node-name``, ``--labels`` are hidden from Ray's help and work (2.60, scripts.py). The log monitor is
    left out as it would outlive the raylet.
    """
    words = [
        "start",
        f"--address={order.head}",
        "--block",
        f"--node-name={order.node}",
        f"--num-gpus={len(order.gpus)}",
        "--include-log-monitor=false",
    ]
    if order.labels:
        words.append("--labels=" + ",".join(f"{key}={value}" for key, value in sorted(order.labels.items())))
    if settings.num_cpus is not None:
        words.append(f"--num-cpus={settings.num_cpus}")
    if settings.object_store_bytes is not None:
        words.append(f"--object-store-memory={settings.object_store_bytes}")
    if settings.node_ip:
        words.append(f"--node-ip-address={settings.node_ip}")
    if settings.temp_dir:
        words.append(f"--temp-dir={settings.temp_dir}")
    return (*words, *ray_ports.arguments(settings), *settings.extra_args)


def environment(
    settings: RaySettings, order: JoinOrder, owner: Owner, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the raylet, which Ray's tasks inherit.

    The GPUs are named by UUID: Ray 2.60 splits CUDA_VISIBLE_DEVICES at commas, compares the number of
    entries with ``--num-gpus`` and hands the entries out as they are (accelerators/nvidia_gpu.py).
    """
    kept = {k: v for k, v in base.items() if k not in _NOT_FOR_RAY and not k.startswith("GPUHERD__")}
    kept.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    kept.pop("RAY_AUTH_TOKEN_PATH", None)
    if settings.auth_mode == "token":
        kept["RAY_AUTH_TOKEN_PATH"] = settings.token_path
    return {
        **kept,
        "RAY_AUTH_MODE": settings.auth_mode,
        "RAY_CLOUD_INSTANCE_ID": order.node,
        "RAY_NODE_TYPE_NAME": owner.pool,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": order.node_id,
        "RAY_gcs_rpc_server_reconnect_timeout_s": str(_RECONNECT_S),
        "CUDA_VISIBLE_DEVICES": ",".join(order.gpus),
        "PYTHONUNBUFFERED": "1",
        MARK: owner.mark,
    }
