"""Runs one ``Gossip`` on real sockets. Decides nothing: bytes, kernel evidence and time go in, acts come out.

Order within one turn of the loop: what the kernel knows of paths, then the packets that wait, and the tick
only when every packet that had arrived by its deadline has been handed over.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.gossip import Gossip
from gpuherd.gossip.inputs import CallResult, Input, Join, Leave, Request, Tick
from gpuherd.gossip.outputs import Answer, Call, Departed, Event, Output, SendDatagram
from gpuherd.gossip.views import FleetView
from gpuherd.shell.clock import Clock
from gpuherd.shell.gossip_streams import Caller, Listener
from gpuherd.shell.gossip_udp import DatagramSocket

PACKETS_PER_TURN: Final = 256
CHECKS_PER_TURN: Final = 24
"""A turn ends after so many signature checks. One input may add 1 + limits.CHECKS_PER_TURN: in all at most
89 * 219 us = 19.5 ms."""
LEAVE_PATIENCE_S: Final = 2.0
_LAG_WINDOW_S: Final = 30.0


class LoopLag:
    """The worst lateness of a timer within the last 30 to 60 s."""

    def __init__(self) -> None:
        self._began_at = 0.0
        self._worst = 0.0
        self._before = 0.0

    def note(self, late_s: float, now: float) -> None:
        """Take one lateness."""
        if now - self._began_at > _LAG_WINDOW_S:
            self._before = self._worst if now - self._began_at <= 2 * _LAG_WINDOW_S else 0.0
            self._worst, self._began_at = 0.0, now
        self._worst = max(self._worst, late_s)

    @property
    def worst_s(self) -> float:
        """Return it in seconds."""
        return max(self._worst, self._before)


class GossipShell:
    """The sockets and the one timer of a ``Gossip``. ``on_event`` gets its events, in order."""

    def __init__(self, core: Gossip, clock: Clock, *, on_event: Callable[[Event], None]) -> None:
        self.core: Final = core
        self.lag: Final = LoopLag()
        self._clock = clock
        self._on_event = on_event
        self._udp: DatagramSocket | None = None
        self._listener = Listener(self._hear, clock)
        self._caller = Caller(self._hear, clock)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._due_at: float | None = None
        """A deadline that has come and waits for the packets that arrived before it."""
        self._departed = asyncio.Event()

    @property
    def shed_streams(self) -> int:
        """Streams of others that were ended for newer ones."""
        return self._listener.shed

    @property
    def unsent(self) -> int:
        """Datagrams that the kernel did not take."""
        return self._udp.unsent if self._udp is not None else 0

    async def start(self, bind: str, port: int, seeds: tuple[Address, ...]) -> None:
        """Listen and join; raises ConfigInvalid when the port is taken."""
        self._udp = DatagramSocket(bind, port)
        try:
            await self._listener.start(bind, port)
        except BaseException:
            self._udp.close()
            raise
        asyncio.get_running_loop().add_reader(self._udp.fileno(), self._readable)
        self.tell(Join(seeds=seeds))

    async def leave(self) -> None:
        """Say that this node goes on purpose; returns when that is spread, at the latest in 2 s."""
        self.tell(Leave())
        try:
            async with asyncio.timeout(LEAVE_PATIENCE_S):
                await self._departed.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Give the port back. Without ``leave`` before, the others see an agent that died."""
        if self._timer is not None:
            self._timer.cancel()
        if self._udp is not None:
            asyncio.get_running_loop().remove_reader(self._udp.fileno())
            self._udp.close()
            self._udp = None
        self._listener.close()
        await self._caller.close()

    def tell(self, given: Input) -> None:
        """Hand the core an input of this process: a roster, what to publish, that we leave."""
        if self._udp is not None:
            self._feed(given)
            self._arm()

    def view(self) -> FleetView:
        """Return the fleet as this node sees it now."""
        return self.core.view(self._clock.now())

    def _hear(self, given: Request | CallResult) -> None:
        self.tell(given)

    def _readable(self) -> None:
        udp = self._udp
        if udp is None:
            return
        checked = self.core.counters.checks
        for fault in udp.faults():
            self._feed(fault)
        for _ in range(PACKETS_PER_TURN):
            packet = udp.receive()
            if packet is None or (self._due_at is not None and packet.received_at >= self._due_at):
                self._tick()
            if packet is None:
                break
            self._feed(packet)
            if self._udp is None or self.core.counters.checks - checked >= CHECKS_PER_TURN:
                break
        self._arm()

    def _wake(self) -> None:
        """The deadline has come: read what waits; the tick follows in ``_readable``."""
        self._timer, self._timer_at = None, float("inf")
        now = self._clock.now()
        if self._due_at is None:
            self._due_at = now
            self.lag.note(max(0.0, now - self.core.deadline) if self.core.deadline > 0 else 0.0, now)
        self._readable()

    def _tick(self) -> None:
        if self._due_at is None:
            return
        self._due_at = None
        self._feed(Tick())

    def _feed(self, given: Input) -> None:
        for output in self.core.handle(given, self._clock.now()):
            self._act(output)

    def _act(self, output: Output) -> None:
        match output:
            case SendDatagram():
                if self._udp is None:
                    return
                fault = self._udp.send(output.destination, output.payload)
                if fault is not None:
                    asyncio.get_running_loop().call_soon(self.tell, fault)
            case Call():
                self._caller.call(output)
            case Answer():
                self._listener.answer(output.request, output.payload)
            case _:
                if isinstance(output, Departed):
                    self._departed.set()
                self._on_event(output)

    def _arm(self) -> None:
        """Keep one timer, at the core's deadline; a tick that waits for packets looks again at once."""
        if self._udp is None:
            return
        at = self._clock.now() if self._due_at is not None else max(self.core.deadline, self._clock.now())
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer_at = at
        self._timer = loop.call_later(max(0.0, at - self._clock.now()), self._wake)
