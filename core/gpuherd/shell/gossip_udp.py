"""The gossip's datagrams: one socket that tells when the kernel got each packet and what it knows of paths.

Kernel facts used (Linux, ip(7), udp(7), socket(7)): SO_TIMESTAMPNS stamps each packet at its arrival;
IP_RECVERR keeps ICMP errors of an unconnected socket in a queue, each with the address that it is about.
"""

import errno
import socket
import struct
import time
from collections.abc import Iterator
from typing import Final

from gpuherd.errors import ConfigInvalid
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.inputs import Datagram, PathFault, SocketError

_SO_TIMESTAMPNS: Final = 35
_IP_RECVERR: Final = 11
_IPV6_RECVERR: Final = 25
_TIMESPEC: Final = struct.Struct("@ll")
_EXTENDED_ERROR: Final = struct.Struct("@IBBBBII")
"""struct sock_extended_err of linux/errqueue.h: errno, origin, type, code, pad, info, data."""
_MAX_BYTES: Final = 2_048
"""More than a datagram may have: a longer one is cut, and refused by the core for its size."""
_BUFFER_BYTES: Final = 1_048_576
"""A starved process keeps some 1,000 packets; the kernel may grant less."""
_MAPPED: Final = "::ffff:"

_FAULTS: Final = {
    errno.ECONNREFUSED: PathFault.REFUSED,
    errno.EHOSTUNREACH: PathFault.UNREACHABLE,
    errno.ENETUNREACH: PathFault.UNREACHABLE,
    errno.EHOSTDOWN: PathFault.UNREACHABLE,
}


class DatagramSocket:
    """A bound UDP socket that never blocks. ``::`` serves IPv4 as well."""

    def __init__(self, bind: str, port: int) -> None:
        """Bind; raises ConfigInvalid when the port is taken or the address is not ours."""
        self._is_v6 = ":" in bind
        self._sock = socket.socket(socket.AF_INET6 if self._is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
        self.unsent: int = 0
        """Packets that the kernel refused to take."""
        try:
            self._set_options()
            self._sock.bind((bind, port))
        except OSError as error:
            self._sock.close()
            why = f"cannot listen on {bind} port {port} (UDP): {error.strerror or error}"
            raise ConfigInvalid({"gossip.port": why}) from error
        self.port: int = self._sock.getsockname()[1]

    def _set_options(self) -> None:
        sock = self._sock
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        if self._is_v6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)

    def fileno(self) -> int:
        """Return the descriptor, for the loop."""
        return self._sock.fileno()

    def close(self) -> None:
        """Give the port back."""
        self._sock.close()

    def receive(self) -> Datagram | None:
        """Return the oldest waiting packet, or None when none waits."""
        while True:
            try:
                payload, ancillary, _, source = self._sock.recvmsg(_MAX_BYTES, 128)
            except BlockingIOError:
                return None
            except OSError:
                continue  # an error of the queue was told here; ``faults`` reads it with its address
            return Datagram(
                source=self._from_kernel(source), payload=payload, received_at=_received_at(ancillary)
            )

    def faults(self) -> Iterator[SocketError]:
        """Yield what the kernel has learned of paths since the last call."""
        while True:
            try:
                _, ancillary, _, about = self._sock.recvmsg(_MAX_BYTES, 512, socket.MSG_ERRQUEUE)
            except OSError:
                return
            code = next(
                (
                    _EXTENDED_ERROR.unpack_from(data)[0]
                    for _, kind, data in ancillary
                    if kind in (_IP_RECVERR, _IPV6_RECVERR) and len(data) >= _EXTENDED_ERROR.size
                ),
                0,
            )
            if code in _FAULTS and about:
                yield SocketError(destination=self._from_kernel(about), fault=_FAULTS[code])

    def send(self, destination: Address, payload: bytes) -> SocketError | None:
        """Send at once or not at all; return what the kernel says of the way, if it says anything."""
        target = self._to_kernel(destination)
        for _ in range(2):  # the first try may only be told of an earlier packet's error
            try:
                self._sock.sendto(payload, target)
            except OSError as error:
                code = error.errno
                continue
            return None
        self.unsent += 1
        fault = _FAULTS.get(code or 0)
        if fault is None or fault is PathFault.REFUSED:
            return None  # refusals are told with their address by ``faults``
        return SocketError(destination=destination, fault=fault)

    def _from_kernel(self, name: tuple[str, int]) -> Address:
        host = name[0].partition("%")[0]
        return Address(host.removeprefix(_MAPPED) if "." in host else host, name[1])

    def _to_kernel(self, address: Address) -> tuple[str, int]:
        if self._is_v6 and ":" not in address.host:
            return (_MAPPED + address.host, address.port)
        return (address.host, address.port)


def _received_at(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Return when the kernel got the packet, on the monotonic clock; now when it does not say.

    The stamp is wall time: what counts is its age, and a clock that was set in between cannot make that
    negative.
    """
    now = time.monotonic()
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return now - max(0.0, time.time() - float(seconds) - float(nanoseconds) / 1e9)
    return now
