"""Gossip processes on loopback: started, listened to, and ended also when a test fails."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_PATIENCE_S = 20.0
_TELLING = ("VerdictChanged", "RecordChanged")

_PROGRAM = """
import asyncio, json, pathlib, sys
from gpuherd.gossip.addresses import Address
from gpuherd_sim.gossip.process import Plan, live
given = json.loads(sys.argv[1])
asyncio.run(live(Plan(
    cluster=given["cluster"], name=given["name"], address=Address(*given["address"]),
    seeds=tuple(Address(*s) for s in given["seeds"]), events=pathlib.Path(given["events"]),
    key=pathlib.Path(given["key"]), epoch=given["epoch"], roster=tuple(given["roster"]))))
"""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free for UDP and TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with (
            socket.socket(family, socket.SOCK_STREAM) as tcp,
            socket.socket(family, socket.SOCK_DGRAM) as udp,
        ):
            tcp.bind((host, 0))
            port = int(tcp.getsockname()[1])
            with contextlib.suppress(OSError):
                udp.bind((host, port))
                return port


@dataclass(slots=True)
class Host:
    """One process, and where it listens and writes."""

    name: str
    port: int
    events: Path
    process: subprocess.Popen[bytes]


@dataclass(slots=True)
class Hosts:
    """Use it as a context; ``roster`` is who counts in E."""

    folder: Path
    cluster: str = "test"
    address: str = "127.0.0.1"
    roster: tuple[str, ...] = ()
    by_name: dict[str, Host] = field(default_factory=dict)
    _all: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._all:
            process.wait()

    def start(
        self, name: str, *, port: int = 0, key: str = "", cluster: str = "", epoch: int = 0, log: str = ""
    ) -> Host:
        """Start one; ``key`` and ``log`` default to the name."""
        port = port or free_port(self.address)
        events = self.folder / f"{log or name}.events"
        seeds = [(self.address, host.port) for host in self.by_name.values()][:2]
        given = {
            "cluster": cluster or self.cluster,
            "name": name,
            "address": (self.address, port),
            "seeds": seeds,
            "events": str(events),
            "key": str(self.folder / f"{key or name}.key"),
            "epoch": epoch,
            "roster": self.roster,
        }
        process = subprocess.Popen([sys.executable, "-c", _PROGRAM, json.dumps(given)])
        self._all.append(process)
        host = Host(name, port, events, process)
        self.by_name[log or name] = host
        return host

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; after SIGKILL or SIGTERM wait for the end."""
        process = self.by_name[name].process
        os.kill(process.pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(timeout=_PATIENCE_S)

    def said(self, observer: str) -> list[tuple[str, str, str]]:
        """Return (event, member, word) of one host, in order."""
        path = self.by_name[observer].events
        if not path.exists():
            return []
        lines = path.read_text("utf-8").splitlines()
        return [tuple(json.loads(line)[1:]) for line in lines if line.endswith("]")]

    def last_verdict(self, observer: str, about: str) -> str:
        """Return the newest word of one host on another; ``alive`` when it has said none."""
        words = [w for event, name, w in self.said(observer) if event in _TELLING and name == about]
        return words[-1] if words else "alive"

    def until(self, what: str, is_so: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
        """Wait until it is so."""
        end = time.monotonic() + patience_s
        while not is_so():
            assert time.monotonic() < end, what
            time.sleep(0.05)

    def until_verdict(self, about: str, *words: str, by: tuple[str, ...] = ()) -> None:
        """Wait until all others hold one of these verdicts."""
        others = by or tuple(name for name in self.by_name if name != about)
        for other in others:
            self.until(
                f"{other} holds {about} for {words}",
                lambda other=other: self.last_verdict(other, about) in words,  # type: ignore[misc]  # bound now
            )

    def fleet(self, size: int) -> None:
        """Start so many and wait until all know all."""
        names = [f"n{i}" for i in range(size)]
        self.roster = self.roster or tuple(names)
        for name in names:
            self.start(name)
        for name in names:
            self.until(
                f"{name} knows all",
                lambda name=name: len({n for e, n, _ in self.said(name) if e == "Joined"}) >= size - 1,  # type: ignore[misc]  # bound now
            )
