"""Reads what a raylet would find on this host: the token, its folder, its ports, room on disk and in memory.

Takes a few milliseconds and changes nothing, apart from the folder that Ray would make.
"""

import errno
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuherd_agent.actuators.ray_ports import fixed_ports
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.ground import Ground

RAYS_OWN_TEMP_DIR: Final = "/tmp/ray"  # noqa: S108  Ray's default
_SHM: Final = "/dev/shm"  # noqa: S108  where Ray keeps its object store


def read_ground(settings: RaySettings) -> Ground:
    """Return it; what cannot be read is told as an error or left None, never raised."""
    temp_dir = settings.temp_dir or RAYS_OWN_TEMP_DIR
    disk = _usage(temp_dir)
    shm = _usage(_SHM)
    return Ground(
        auth_mode=settings.auth_mode,
        token_path=settings.token_path,
        token_error=_token_error(settings.token_path) if settings.auth_mode == "token" else "",
        node_ip=settings.node_ip,
        node_ip_error=_address_error(settings.node_ip) if settings.node_ip else "",
        temp_dir=temp_dir,
        temp_dir_error=_folder_error(Path(temp_dir)),
        disk_total_bytes=disk[0] if disk else None,
        disk_free_bytes=disk[1] if disk else None,
        shm_free_bytes=shm[1] if shm else None,
        object_store_bytes=settings.object_store_bytes,
        ports=_taken(fixed_ports(settings)),
    )


def _token_error(path: str) -> str:
    try:
        return "" if Path(path).read_bytes().strip() else "is empty"
    except OSError as error:
        return error.strerror or str(error)


def _address_error(address: str) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _folder_error(folder: Path) -> str:
    """Say why Ray could not make its session's folder there; the nearest folder above must allow it."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} is not writable for this user"


def _usage(path: str) -> tuple[int, int] | None:
    """Return (total, free) bytes of the file system that holds ``path`` or would."""
    folder = Path(path)
    there = next(above for above in (folder, *folder.parents) if above.exists())
    try:
        usage = shutil.disk_usage(there)
    except OSError:
        return None
    return usage.total, usage.free


def _taken(ports: Mapping[int, str]) -> dict[int, str]:
    return {port: use for port, use in ports.items() if _is_listened_on(port)}


def _is_listened_on(port: int) -> bool:
    """Say whether a listener on any address is in the way: Ray's daemons bind them all."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
