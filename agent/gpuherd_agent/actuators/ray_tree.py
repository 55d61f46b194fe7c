"""A raylet's processes: how it is recognised, what its command line tells, who works under it."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from gpuherd.names import GpuUuid, RayNodeId
from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.doors import Raylet

_NODE_ID_DIGITS: Final = 56
_RAYS_OWN: Final = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Titles of processes that run no user code; IDLE also starts those of Ray's spilling workers."""


def is_raylet(pid: int) -> bool:
    """Say whether the process runs Ray's raylet program."""
    words = processes.command(pid)
    return bool(words) and PurePath(words[0]).name == "raylet"


def has_rays_title(pid: int) -> bool:
    """Say whether the process goes by a title that Ray has given it."""
    words = processes.command(pid)
    return bool(words) and words[0].startswith("ray::")


def describe(process: Process, boot_id: str) -> Raylet | None:
    """Return the record of a running raylet from its command line, None when that names no node id."""
    words = processes.command(process.pid)
    node_id = option(words, "node_id")
    if len(node_id) != _NODE_ID_DIGITS:
        return None
    return Raylet(
        pid=process.pid,
        started_ticks=process.started_ticks,
        boot_id=boot_id,
        node_id=RayNodeId(node_id),
        session_pid=process.session,
        gpus=parse_gpus(option(words, "static_resource_list")),
        head=option(words, "gcs-address"),
        offered=parse_offered(processes.variable(process.pid, "CUDA_VISIBLE_DEVICES")),
    )


def parse_offered(devices: str) -> tuple[GpuUuid, ...]:
    """Return the UUIDs in the value of CUDA_VISIBLE_DEVICES; nothing when it names GPUs in another way."""
    words = tuple(GpuUuid(word.strip()) for word in devices.split(",") if word.strip())
    return words if all(word.startswith("GPU-") for word in words) else ()


def option(words: Sequence[str], name: str) -> str:
    """Return the value of ``--name=value``, empty when it is not given."""
    start = f"--{name}="
    return next((word.removeprefix(start) for word in words if word.startswith(start)), "")


def parse_gpus(resources: str) -> int:
    """Return the number of GPUs in a list such as ``CPU,2,GPU,7.0``."""
    words = resources.split(",")
    amounts = dict(zip(words[::2], words[1::2], strict=False))
    try:
        return int(float(amounts.get("GPU", "0")))
    except ValueError:
        return 0


def tree(root: int) -> tuple[Process, ...]:
    """Return the running descendants of a process, without itself."""
    children: dict[int, list[Process]] = {}
    for process in processes.running():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    ahead = [root]
    while ahead:
        below = children.pop(ahead.pop(), [])
        found += below
        ahead += [process.pid for process in below]
    return tuple(found)


def work(members: Iterable[Process]) -> dict[Process, str]:
    """Return those of these processes that run user code, with the titles that Ray gives its workers."""
    titled = {member: next(iter(processes.command(member.pid)), "") for member in members}
    return {p: t for p, t in titled.items() if t.startswith("ray::") and not t.startswith(_RAYS_OWN)}
