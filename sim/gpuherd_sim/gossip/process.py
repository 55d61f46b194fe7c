"""A process with nothing but the shipped gossip in it: for benches and tests on real sockets.

It writes one JSON line an event, ``[monotonic seconds, event, member, word]``, and leaves on SIGTERM. The
monotonic clock is the host's, so lines of several processes compare. ``fork`` starts many from one parent
that has imported everything.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.gossip import Gossip, Self
from gpuherd.gossip.identity import Identity
from gpuherd.gossip.inputs import SetRoster
from gpuherd.gossip.outputs import Event, Joined, NameTaken, RecordChanged, Superseded, VerdictChanged
from gpuherd.names import ClusterName, NodeName
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gossip import GossipShell
from gpuherd.shell.gossip_keys import InsecureVerifier, load_or_make

_CLONE_NEWNET: Final = 0x40000000
_FAILED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One process. ``namespace`` is a network namespace to enter; ``roster`` empty = everybody counts."""

    cluster: ClusterName
    name: NodeName
    address: Address
    seeds: tuple[Address, ...]
    events: Path
    key: Path
    namespace: str = ""
    epoch: int = 0
    roster: tuple[NodeName, ...] = ()


def fork(plan: Plan) -> int:
    """Start the process and return its pid. Call it without a running loop, and ``os.waitpid`` it."""
    pid = os.fork()
    if pid:
        return pid
    code = _FAILED
    try:
        gc.freeze()
        if plan.namespace:
            _enter(plan.namespace)
        asyncio.run(live(plan))
        code = 0
    finally:
        os._exit(code)
    raise AssertionError("not reached")


async def live(plan: Plan) -> None:
    """Take part until SIGTERM, then leave."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    with plan.events.open("a", buffering=1, encoding="utf-8") as file:
        scribe = Scribe(plan, file.write, told)
        shell = scribe.shell
        await shell.start(plan.address.host, plan.address.port, plan.seeds)
        if plan.roster:
            shell.tell(SetRoster(racks=dict.fromkeys(plan.roster, "")))
        try:
            await told.wait()
            await shell.leave()
        finally:
            await shell.close()


class Scribe:
    """Writes the events of its ``shell``; a name that is another's ends the process."""

    def __init__(self, plan: Plan, write: Callable[[str], object], told: asyncio.Event) -> None:
        self._clock = SystemClock()
        self._write = write
        self._told = told
        signer = load_or_make(plan.key)
        own = Self(
            cluster=plan.cluster,
            identity=Identity(name=plan.name, key=signer.key),
            epoch=plan.epoch or int(self._clock.wall() * 1_000),
            advertised=plan.address,
        )
        core = Gossip(own, signer, InsecureVerifier(), random.Random())  # noqa: S311  order of probes
        self.shell = GossipShell(core, self._clock, on_event=self._on_event)

    def _on_event(self, event: Event) -> None:
        name = getattr(event, "name", "")
        line = [self._clock.now(), type(event).__name__, name, self._word(event)]
        self._write(json.dumps(line) + "\n")
        if isinstance(event, NameTaken | Superseded):
            self._told.set()

    def _word(self, event: Event) -> str:
        match event:
            case VerdictChanged():
                return event.after.value
            case Joined():
                return str(event.epoch)
            case RecordChanged():
                members = self.shell.view().members
                return next((m.verdict.value for m in members if m.name == event.name), "")
            case _:
                return ""


def _enter(namespace: str) -> None:
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    with contextlib.closing(os.fdopen(handle)) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")
