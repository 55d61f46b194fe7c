"""Words to systemd over its notify socket (sd_notify(3)); silent where there is none.

A datagram that cannot be sent is lost: systemd may be restarting, and a daemon must not fail over it.
"""

import os
import socket
import time
from collections.abc import Mapping


class SdNotify:
    """The notify socket of this process, or nothing when it was not started by systemd."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@name" means the abstract socket "\0name"; other forms (vsock) are not for a daemon on a host.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        if not address.startswith(("@", "/")):
            self._address = ""
        self._watchdog_usec = _watchdog_usec(environ)

    @property
    def watchdog_period_s(self) -> float | None:
        """Return how often to call ``watchdog``: half the unit's WatchdogSec, None when it has none."""
        return self._watchdog_usec / 2e6 if self._watchdog_usec else None

    def ready(self, status: str = "") -> None:
        """Say that start-up, or a reload, is finished."""
        self._send("READY=1", f"STATUS={_line(status)}" if status else "")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._send(f"STATUS={_line(text)}")

    def watchdog(self) -> None:
        """Say that the main loop made progress."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Say that a reload has begun; ``ready`` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that shutdown has begun."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        payload = "\n".join(line for line in lines if line).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            try:
                sock.sendto(payload, self._address)
            except OSError:
                return


def _line(text: str) -> str:
    """A newline would start another assignment."""
    return " ".join(text.split())[:500]


def _watchdog_usec(environ: Mapping[str, str]) -> int:
    usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    is_ours = pid in {"", str(os.getpid())}
    return int(usec) if usec.isdigit() and is_ours else 0
