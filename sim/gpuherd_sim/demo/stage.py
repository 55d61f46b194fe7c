"""Where the demo plays: one folder with ports, a throw-away token, settings and scenarios. Starts nothing."""

import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd.names import NodeName
from gpuherd_sim.gpus.library import CompilerMissing, build_library
from gpuherd_sim.gpus.scenario import Scenario
from gpuherd_sim.gpus.scenario_file import VARIABLE, write_scenario

CLUSTER: Final = "demo"
POOL: Final = "demo"
NODES: Final = (NodeName("gpu-1"), NodeName("gpu-2"), NodeName("gpu-3"))
GPUS_EACH: Final = 8
STAY: Final = 0
"""``min`` of the pool: nothing stays once the queue is empty, and nothing joins before there is one."""

OBJECT_STORE_BYTES: Final = 80_000_000
"""Just above the least that Ray accepts (78,643,200)."""

_LONGEST_TMPDIR: Final = 22
_RECORD: Final = "demo.json"
_DROPPED: Final = ("RAY_", "GPUHERD_", "CUDA_VISIBLE_DEVICES")
"""What the user's shell may say to Ray or to us and must not reach the demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A prepared folder. ``library`` holds the C stand-in for NVIDIA's library; None = there is no gcc."""

    folder: Path
    head_port: int
    client_port: int
    broker_port: int
    api_port: int
    agent_ports: Mapping[NodeName, int]
    gossip_ports: Mapping[NodeName, int]
    scaler_gossip_port: int
    library: Path | None

    @property
    def head(self) -> str:
        """Return the address of Ray's head."""
        return f"127.0.0.1:{self.head_port}"

    @property
    def socket(self) -> Path:
        """Return the autoscaler's socket."""
        return self.folder / "scaler.sock"

    @property
    def token(self) -> Path:
        """Return the file with Ray's token."""
        return self.folder / "token"

    @property
    def decisions(self) -> Path:
        """Return the file to which the autoscaler adds each decision."""
        return self.folder / "decisions.jsonl"

    @property
    def ledger(self) -> Path:
        """Return the file in which the tasks are told."""
        return self.folder / "work.jsonl"

    @property
    def enough(self) -> Path:
        """Return the file whose being there tells the driver to stop."""
        return self.folder / "enough"

    def config(self, name: str) -> Path:
        """Return the settings file of a daemon."""
        return self.folder / f"{name}.toml"

    def scenario(self, node: NodeName) -> Path:
        """Return the file that says what a node's GPUs report."""
        return self.folder / f"{node}.gpus.toml"

    def environment(self) -> dict[str, str]:
        """Return what everything is started with: Ray with the token, and no word to its makers."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
        binaries = str(Path(sys.executable).parent)
        return {
            **kept,
            "PATH": f"{binaries}:{kept.get('PATH', '/usr/bin:/bin')}",
            "PYTHONUNBUFFERED": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def agent_environment(self, node: NodeName) -> dict[str, str]:
        """Return the same with this node's simulated GPUs."""
        env = {**self.environment(), VARIABLE: str(self.scenario(node))}
        if self.library is not None:
            env["LD_LIBRARY_PATH"] = f"{self.library}:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        return env

    def break_gpu(self, node: NodeName, gpu: int) -> None:
        """Let a GPU fall off the bus: from now on the driver answers GPU_IS_LOST for it."""
        write_scenario(self.scenario(node), healthy(node).with_lost(gpu))


def healthy(node: NodeName) -> Scenario:
    """Return a host with all its GPUs well."""
    return Scenario(host=node).having({"gpus": GPUS_EACH})


def set_up() -> Stage:
    """Make the folder under TMPDIR, or under /tmp where that is too long: unix sockets bear no long paths."""
    temporary = tempfile.gettempdir()
    short = temporary if len(temporary) <= _LONGEST_TMPDIR else "/tmp"  # noqa: S108  mkdtemp makes it ours alone
    folder = Path(tempfile.mkdtemp(prefix="ghdemo-", dir=short))
    head, client, broker, api, scaler, *agents = free_ports(5 + 2 * len(NODES))
    try:
        library = build_library(folder)
    except CompilerMissing:
        library = None
    stage = Stage(
        folder=folder,
        head_port=head,
        client_port=client,
        broker_port=broker,
        api_port=api,
        agent_ports=dict(zip(NODES, agents[: len(NODES)], strict=True)),
        gossip_ports=dict(zip(NODES, agents[len(NODES) :], strict=True)),
        scaler_gossip_port=scaler,
        library=library,
    )
    descriptor = os.open(stage.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))
    stage.config("autoscaler").write_text(_toml(autoscaler_settings(stage)), encoding="utf-8")
    for node in NODES:
        stage.config(node).write_text(_toml(agent_settings(stage, node)), encoding="utf-8")
        write_scenario(stage.scenario(node), healthy(node))
    (folder / _RECORD).write_text(json.dumps({"kind": "gpuherd demo"}), encoding="utf-8")
    return stage


def is_stage(folder: Path) -> bool:
    """Say whether a demo has made this folder, so that it may be removed."""
    return (folder / _RECORD).is_file()


def clear(folder: Path) -> None:
    """Remove the folder. Once its processes have ended, nothing of the demo is left then."""
    shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody uses; all are held until the last is found."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def head_command(stage: Stage) -> list[str]:
    """Return the command of a head that runs no work, shows no page and keeps no log monitor."""
    return [
        *("ray", "start", "--head", "--block", f"--port={stage.head_port}"),
        *("--num-cpus=0", "--num-gpus=0", f"--object-store-memory={OBJECT_STORE_BYTES}"),
        *("--include-dashboard=false", "--include-log-monitor=false", "--no-monitor"),
        *(f"--ray-client-server-port={stage.client_port}", f"--temp-dir={stage.folder / 'h'}"),
        "--disable-usage-stats",
    ]


def autoscaler_settings(stage: Stage) -> dict[str, object]:
    """Return ``autoscaler.toml``: quick to release, armed from the start."""
    return {
        "cluster": CLUSTER,
        "state_dir": str(stage.folder / "scaler"),
        "insecure": True,
        "head": {"addresses": [stage.head], "token_file": str(stage.token)},
        "scaler": {
            "start_mode": "enforce",
            "interval_s": 1.0,
            "min_gap_s": 0.5,
            "settle_s": 1.0,
            "record": str(stage.decisions),
        },
        "broker": {"url": f"mqtt://127.0.0.1:{stage.broker_port}", "embedded": True},
        "api": {"socket": str(stage.socket)},
        "metrics": {"port": stage.api_port},
        "gossip": {
            "enabled": True,
            "port": stage.scaler_gossip_port,
            "seeds": [f"127.0.0.1:{port}" for port in stage.gossip_ports.values()],
        },
        "pool": [
            {
                "name": POOL,
                "nodes": list(NODES),
                "min": STAY,
                "max": len(NODES),
                "gpus_per_node": GPUS_EACH,
                "idle_timeout_s": 8.0,
                "cooldown_s": 2.0,
                "leaving_max": len(NODES),
            }
        ],
    }


def agent_settings(stage: Stage, node: NodeName) -> dict[str, object]:
    """Return ``agent.toml`` of one node."""
    backend = "nvml" if stage.library else "scenario"
    return {
        "cluster": CLUSTER,
        "node": node,
        "pool": POOL,
        "state_dir": str(stage.folder / f"{node}.state"),
        "insecure": True,
        "gpu": {"declared": GPUS_EACH, "backend": backend, "shrink_min_ratio": 1.0},
        "ray": {
            "auth_mode": "token",
            "token_path": str(stage.token),
            "num_cpus": 1,
            "object_store_bytes": OBJECT_STORE_BYTES,
            "temp_dir": str(stage.folder / f"n{NODES.index(node) + 1}"),
            "stop_grace_s": 10.0,
            "extra_args": ["--include-log-monitor=false"],
        },
        "head": {"addresses": [stage.head]},
        "broker": {"url": f"mqtt://127.0.0.1:{stage.broker_port}"},
        "http": {"port": stage.agent_ports[node]},
        "gossip": {
            "enabled": True,
            "port": stage.gossip_ports[node],
            "seeds": [f"127.0.0.1:{stage.gossip_ports[NODES[0]]}"],
        },
    }


def _toml(table: Mapping[str, object]) -> str:
    """Return the table as TOML: plain values, then sections, one level deep, then lists of sections."""
    lines = [f"{key} = {json.dumps(v)}" for key, v in table.items() if not _is_section(v)]
    for key, value in table.items():
        for section in value if isinstance(value, list) and _is_section(value) else [value]:
            if isinstance(section, dict):
                lines += ["", f"[[{key}]]" if isinstance(value, list) else f"[{key}]"]
                lines += [f"{name} = {json.dumps(v)}" for name, v in section.items()]
    return "\n".join(lines) + "\n"


def _is_section(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
