"""TCP between simulated hosts: the kernel shakes hands for a stopped process and refuses for a dead one.

Lost segments are sent again after TCP's first time-outs (Linux: SYN after 1 s, data from 0.2 s on).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from gpuherd.gossip.inputs import CallEnd, CallResult, Input, Request
from gpuherd.gossip.outputs import Answer, Call
from gpuherd_sim.gossip.network import Network
from gpuherd_sim.gossip.node import Node, State
from gpuherd_sim.gossip.schedule import Schedule

_SYN_TRIES_S: Final = (0.0, 1.0, 3.0)
_DATA_TRIES_S: Final = (0.0, 0.2, 0.6, 1.4, 3.0)
_SYN_PACKETS, _REQUEST_PACKETS, _ANSWER_PACKETS = 1, 3, 3
"""A SYN; after its answer an ack, the request, an end; the answer, its ack, an end."""

Receive = Callable[[Node, Callable[[float], Input]], None]


class Streams:
    """Open streams by the number of their request. ``receive`` puts an input before a process."""

    def __init__(self, schedule: Schedule, network: Network, receive: Receive, keep: int) -> None:
        self.packets = 0
        self.bytes = 0
        self.kept: deque[bytes] = deque(maxlen=keep)
        """The last frames, both ways."""
        self._schedule = schedule
        self._network = network
        self._receive = receive
        self._answers: dict[int, Callable[[bytes], None]] = {}
        self._number = 0

    def call(self, node: Node, target: Node | None, output: Call) -> None:
        """Open a stream from ``node`` and let its end be told within its time-out."""
        self.packets += _SYN_PACKETS
        core, ends_at = node.core, self._schedule.now + output.timeout_s
        is_open = [True]

        def finish(end: CallEnd, answer: bytes = b"") -> None:
            if is_open[0] and node.core is core:
                at = node.clock(self._schedule.now)
                result = CallResult(call=output.call, end=end, received_at=at, answer=answer)
                self._receive(node, lambda _: result)
            is_open[0] = False

        shaken_at = None if target is None else self._handshake(node, target, ends_at)
        if target is None or shaken_at is None:
            self._schedule.at(ends_at, lambda: finish(CallEnd.SILENT))
            return
        if target.state is State.KILLED:
            self._schedule.at(shaken_at, lambda: finish(CallEnd.REFUSED))
            return
        self._count(output.payload, _REQUEST_PACKETS)
        number = self._request(node, target, output.payload, shaken_at)

        def answered(payload: bytes) -> None:
            self._count(payload, _ANSWER_PACKETS)
            back_at = self._transfer(target, node, self._schedule.now)
            if back_at is not None:
                self._schedule.at(back_at, lambda: finish(CallEnd.ANSWERED, payload))

        def expire() -> None:
            self._answers.pop(number, None)
            finish(CallEnd.HANDSHAKE)

        self._answers[number] = answered
        self._schedule.at(ends_at, expire)

    def answer(self, output: Answer) -> None:
        """Send an answer on the stream of its request, if that is still open."""
        reply = self._answers.pop(output.request, None)
        if reply is not None:
            reply(output.payload)

    def _request(self, node: Node, target: Node, payload: bytes, shaken_at: float) -> int:
        self._number += 1
        number, source = self._number, node.address
        arrives_at = self._transfer(node, target, shaken_at)

        def arrive() -> None:
            received_at = target.clock(self._schedule.now)
            request = Request(request=number, source=source, payload=payload, received_at=received_at)
            self._receive(target, lambda _: request)

        if arrives_at is not None:
            self._schedule.at(arrives_at, arrive)
        return number

    def _count(self, payload: bytes, packets: int) -> None:
        self.packets += packets
        self.bytes += len(payload)
        if self.kept.maxlen:
            self.kept.append(payload)

    def _handshake(self, node: Node, target: Node, ends_at: float) -> float | None:
        for wait in _SYN_TRIES_S:
            at = self._schedule.now + wait + self._network.delay() + self._network.delay()
            if at >= ends_at or target.state is State.OFF:
                return None
            there = self._network.passes(node.number, target.number)
            if there and self._network.passes(target.number, node.number):
                return at
        return None

    def _transfer(self, source: Node, target: Node, began_at: float) -> float | None:
        for wait in _DATA_TRIES_S:
            if self._network.passes(source.number, target.number):
                return began_at + wait + self._network.delay()
        return None
