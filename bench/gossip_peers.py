"""The programs that bench.gossip compares: how a host's process starts, and what a line of it means.

serf comes from Debian's package, unpacked and not installed, so no daemon starts; kinship from PyPI into a
throw-away environment.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.network import LOOPBACK, SUBNET, Network

from gpuherd.gossip.addresses import Address
from gpuherd.names import ClusterName, NodeName
from gpuherd_sim.gossip.process import Plan, fork

PORT: Final = 7947
_KINSHIP: Final = "kinship==0.4.0"


class PeerMissing(Exception):
    """The program cannot be had on this machine; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line says of one member.

    ``word``: ``joined``, ``gone`` (a verdict that it is dead or cut off), ``stalled``, ``failed`` (the final
    word; serf and kinship have no other), ``back`` or ``left``.
    """

    word: str
    about: int


class Peer(Protocol):
    """One program."""

    name: str
    subnet: str

    def start(self, host: int, network: Network, folder: Path) -> tuple[int, int]:
        """Start it in a host's namespace; return its pid and a descriptor that its lines come from."""
        ...

    def parse(self, line: str) -> tuple[Line, ...]:
        """Return what one line says."""
        ...


_OF_VERDICT: Final = {
    "agent_dead": ("gone",), "unreachable": ("gone",), "failed": ("gone", "failed"),
    "stalled": ("stalled",), "alive": ("back",), "left": ("left",),
}  # fmt: skip


class Ours:
    """The shipped core and shell, forked from this warm process."""

    name = "gpuherd"
    subnet = SUBNET

    def start(self, host: int, network: Network, folder: Path) -> tuple[int, int]:
        """See Peer."""
        ours, theirs = os.pipe()
        pid = fork(
            Plan(
                cluster=ClusterName("bench"),
                name=NodeName(f"n{host}"),
                address=Address(network.address(host), PORT),
                seeds=(Address(network.address(0), PORT), Address(network.address(1), PORT)),
                events=Path(f"/proc/self/fd/{theirs}"),
                key=folder / f"n{host}.key",
                namespace=network.namespace(host),
            )
        )
        os.close(theirs)
        return pid, ours

    def parse(self, line: str) -> tuple[Line, ...]:
        """See Peer."""
        _, event, name, word = json.loads(line)
        if event == "Joined":
            return (Line(word="joined", about=int(name[1:])),)
        if event == "VerdictChanged":
            return tuple(Line(word=w, about=int(name[1:])) for w in _OF_VERDICT[word])
        return ()


class WholeAgents:
    """``gpuherd-agent`` itself, with everything else it does: no GPUs, no broker, no head to be had.

    Without certificates it speaks on loopback only, so its network is loopback on a cable.
    """

    name = "gpuherd-agent"
    subnet = LOOPBACK

    def start(self, host: int, network: Network, folder: Path) -> tuple[int, int]:
        """See Peer."""
        own = folder / f"n{host}"
        own.mkdir(exist_ok=True)
        seeds = ", ".join(f'"{network.address(seed)}:{PORT}"' for seed in (0, 1) if seed != host)
        config = own / "agent.toml"
        config.write_text(
            _AGENT.format(host=host, own=own, address=network.address(host), port=PORT, seeds=seeds)
        )
        program = Path(sys.executable).with_name("gpuherd-agent")
        return _spawn(network.namespace(host), [str(program), "--config", str(config)])

    def parse(self, line: str) -> tuple[Line, ...]:
        """See Peer."""
        if '"gossip.' not in line:
            return ()
        said = json.loads(line)
        match said["event"]:
            case "gossip.joined":
                return (Line(word="joined", about=int(said["member"][1:])),)
            case "gossip.verdict":
                words = _OF_VERDICT[said["after"]]
                return tuple(Line(word=word, about=int(said["member"][1:])) for word in words)
            case _:
                return ()


_AGENT: Final = """
cluster = "bench"
node = "n{host}"
state_dir = "{own}/state"
insecure = true
log_level = "debug"
gpu.declared = 0
ray.auth_mode = "disabled"
head.addresses = ["127.0.0.1:9"]
broker = {{ url = "mqtt://127.0.0.1:9", reconnect_first_s = 60.0 }}
gossip = {{ enabled = true, bind = "{address}", port = {port}, seeds = [{seeds}] }}
"""


class Serf:
    """serf's agent, profile lan, not encrypted."""

    name = "serf"
    subnet = SUBNET
    _line: Final = re.compile(r"EventMember(Join|Failed|Leave): n(\d+)\b")
    _words: Final = {"Join": ("joined", "back"), "Failed": ("gone", "failed"), "Leave": ("left",)}

    def __init__(self, program: Path) -> None:
        self._program = program

    def start(self, host: int, network: Network, folder: Path) -> tuple[int, int]:
        """See Peer."""
        del folder
        command = [
            *(str(self._program), "agent", f"-node=n{host}", f"-bind={network.address(host)}:{PORT}"),
            *("-rpc-addr=127.0.0.1:7373", "-profile=lan", "-log-level=info"),
            *(f"-retry-join={network.address(seed)}:{PORT}" for seed in (0, 1) if seed != host),
            "-retry-interval=1s",
        ]
        return _spawn(network.namespace(host), command)

    def parse(self, line: str) -> tuple[Line, ...]:
        """See Peer."""
        found = self._line.search(line)
        if found is None:
            return ()
        return tuple(Line(word=word, about=int(found[2])) for word in self._words[found[1]])


class Kinship:
    """kinship in its lan profile, not encrypted, in the environment of ``python``."""

    name = "kinship"
    subnet = SUBNET
    _words: Final = {"MemberJoined": ("joined", "back"), "MemberDead": ("gone", "failed"),
                     "MemberRecovered": ("back",), "MemberLeft": ("left",)}  # fmt: skip
    _program: Final = """
import asyncio, json, sys, kinship
async def main():
    name, bind, *seeds = sys.argv[1:]
    config = kinship.Config.lan(name=name, bind=bind, seeds=seeds, insecure_plaintext=True)
    async with kinship.Cluster(config) as cluster:
        events = cluster.events()
        for member in cluster.members():
            print(json.dumps(["MemberJoined", member.name]), flush=True)
        async for event in events:
            member = getattr(event, "member", None)
            print(json.dumps([type(event).__name__, member.name if member else ""]), flush=True)
asyncio.run(main())
"""

    def __init__(self, python: Path) -> None:
        self._python = python

    def start(self, host: int, network: Network, folder: Path) -> tuple[int, int]:
        """See Peer."""
        del folder
        seeds = [f"{network.address(seed)}:{PORT}" for seed in (0, 1) if seed != host]
        bind = f"{network.address(host)}:{PORT}"
        command = [str(self._python), "-c", self._program, f"n{host}", bind, *seeds]
        return _spawn(network.namespace(host), command)

    def parse(self, line: str) -> tuple[Line, ...]:
        """See Peer."""
        if not line.startswith("["):
            return ()
        event, name = json.loads(line)
        return tuple(Line(word=word, about=int(name[1:])) for word in self._words.get(event, ()) if name)


def find(name: str, folder: Path) -> Peer:
    """Return the program, fetched into ``folder``; raises PeerMissing."""
    match name:
        case "gpuherd":
            return Ours()
        case "gpuherd-agent":
            return WholeAgents()
        case "serf":
            return Serf(_unpack_serf(folder))
        case "kinship":
            return Kinship(_install_kinship(folder))
        case _:
            raise PeerMissing(f"unknown peer {name!r}: gpuherd, serf or kinship")


def _spawn(namespace: str, command: list[str]) -> tuple[int, int]:
    """``ip netns exec`` becomes the command, so the pid is the program's own."""
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    process.returncode = 0  # the bench waits for the pid itself
    return process.pid, os.dup(process.stdout.fileno())


def _unpack_serf(folder: Path) -> Path:
    folder.chmod(0o755)
    _fetch("serf", ["apt-get", "download", "-q", "serf"], folder)
    package = next(iter(folder.glob("serf_*.deb")), None)
    if package is None:
        raise PeerMissing("apt-get download brought no package of serf")
    _fetch("serf", ["dpkg-deb", "-x", str(package), str(folder / "serf")], folder)
    return folder / "serf" / "usr" / "bin" / "serf"


def _install_kinship(folder: Path) -> Path:
    environment = folder / "kinship"
    _fetch("kinship", [sys.executable, "-m", "venv", str(environment)], folder)
    python = environment / "bin" / "python"
    _fetch("kinship", [str(python), "-m", "pip", "install", "-q", _KINSHIP], folder)
    return python


def _fetch(what: str, command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, timeout=180)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        raise PeerMissing(f"{what} cannot be had: {told.strip().splitlines()[-1][:200]}") from error
