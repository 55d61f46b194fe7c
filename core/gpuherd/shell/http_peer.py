"""Who is at the other end of a unix socket, by the kernel's word (SO_PEERCRED, unix(7))."""

import pwd
import socket
import struct
from typing import Final

from aiohttp import web

from gpuherd.rest import NAME_MAX

_UCRED: Final = struct.Struct("3i")


def peer_user(request: web.Request) -> str | None:
    """Return the user name of the process that opened the connection, or its uid as text.

    None on TCP, where the kernel knows no such thing.
    """
    transport = request.transport
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def requester(request: web.Request, given: str) -> str:
    """Return who asks: the body's word, else the user at the other end of the socket."""
    return given[:NAME_MAX] or peer_user(request) or "unknown"
