"""A bridge with one network namespace a host, for benches that take hosts away. Needs root.

Everything carries the pid of the bench in its name and is removed at the end, also after a failure.
"""

import os
import subprocess
from typing import Final, Self

SUBNET: Final = "198.18.7"
"""Of 198.18.0.0/15, which RFC 2544 keeps for benchmarks."""
LOOPBACK: Final = "127.18.7"
"""Loopback addresses on a cable: for programs that refuse any other while nothing is signed."""

_LEARNED_HOSTS: Final = 31
"""One kernel keeps 1,024 learned neighbours for all its namespaces (net.ipv4.neigh.default.gc_thresh3), and
each of n hosts has n - 1. Beyond that the hosts are told of each other instead: such entries do not count."""


def run(*command: str) -> None:
    """Run a command; raises CalledProcessError with what it wrote."""
    subprocess.run(command, check=True, capture_output=True, text=True)


class Network:
    """``size`` hosts by number; use it as a context."""

    def __init__(self, size: int, subnet: str = SUBNET) -> None:
        self._size = size
        self._subnet = subnet
        self._hub = f"gh{os.getpid()}h"
        self._made: list[str] = []

    def __enter__(self) -> Self:
        """Make it."""
        try:
            self._add(self._hub)
            run("ip", "-n", self._hub, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self._hub, "link", "set", "br0", "up")
            for host in range(self._size):
                self._plug(host)
            if self._size > _LEARNED_HOSTS:
                for host in range(self._size):
                    self._introduce(host)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.close()

    def close(self) -> None:
        """Remove what was made."""
        for name in reversed(self._made):
            subprocess.run(("ip", "netns", "del", name), check=False, capture_output=True)
        self._made.clear()

    def namespace(self, host: int) -> str:
        """Return the name of a host's namespace."""
        return f"gh{os.getpid()}n{host}"

    def address(self, host: int) -> str:
        """Return a host's IP address."""
        return f"{self._subnet}.{host + 1}"

    def cut(self, host: int) -> None:
        """Let a host fall silent in both directions, as when its power fails."""
        run("ip", "-n", self._hub, "link", "set", f"v{host}", "nomaster")

    def mend(self, host: int) -> None:
        """Plug a host in again."""
        run("ip", "-n", self._hub, "link", "set", f"v{host}", "master", "br0")

    def _add(self, name: str) -> None:
        run("ip", "netns", "add", name)
        self._made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _plug(self, host: int) -> None:
        name, hub = self.namespace(host), self._hub
        self._add(name)
        peer = ("peer", "name", "e0", "address", _mac(host), "netns", name)
        run("ip", "-n", hub, "link", "add", f"v{host}", "type", "veth", *peer)
        run("ip", "-n", hub, "link", "set", f"v{host}", "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "e0")
        run("ip", "-n", name, "link", "set", "e0", "up")
        if self._subnet == LOOPBACK:
            self._free_loopback(name)

    def _free_loopback(self, name: str) -> None:
        """Let 127/8 go over the cable: the kernel keeps all of it inside the host but 127.0.0.1."""
        run("ip", "-n", name, "addr", "del", "127.0.0.1/8", "dev", "lo")
        run("ip", "-n", name, "addr", "add", "127.0.0.1/32", "dev", "lo")
        for device in ("all", "e0"):
            run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.conf.{device}.route_localnet=1")

    def _introduce(self, host: int) -> None:
        """Tell a host where each other one is, for good."""
        lines = [
            f"neigh replace {self.address(other)} lladdr {_mac(other)} dev e0 nud permanent"
            for other in range(self._size)
            if other != host
        ]
        command = ("ip", "-n", self.namespace(host), "-batch", "-")
        subprocess.run(command, input="\n".join(lines), check=True, capture_output=True, text=True)


def _mac(host: int) -> str:
    return f"02:00:00:00:00:{host + 1:02x}"
