"""memberlist's rules as an abstract model: what the same nodes would conclude with SWIM and Lifeguard.

Constants are those of ``DefaultLANConfig`` (hashicorp/memberlist, config.go), formulas those of its util.go,
suspicion.go and awareness.go: suspicion of 4 * max(1, log10 N) s, up to 6 times as long, shortened by 2
confirmations; 4 * ceil(log10(N + 1)) transmissions; 3 members every 0.2 s. No bytes, no push-pull, no TCP
ping: those do not decide whether a running node is declared dead here. A starved node reads late.
"""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

PROBE_S = 1.0
PROBE_TIMEOUT_S = 0.5
INDIRECT = 3
GOSSIP_S = 0.2
FANOUT = 3
MULT = 4
MAX_MULT = 6
MAX_AWARENESS = 7
PIGGYBACK = 4
ALIVE, SUSPECT, DEAD = 0, 1, 2


@dataclass(slots=True)
class _Suspicion:
    incarnation: int
    began_at: float
    accusers: set[int]


@dataclass(slots=True)
class _Node:
    number: int
    incarnation: int = 0
    awareness: int = 0
    view: dict[int, tuple[int, int]] = field(default_factory=dict)
    suspicions: dict[int, _Suspicion] = field(default_factory=dict)
    queue: dict[int, list[int]] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    turns: list[int] = field(default_factory=list)
    is_gossiping: bool = False
    read_at: float = 0.0


class Memberlist:
    """One fleet. ``deaths`` are (time, by whom, who); ``crashed`` nodes neither send nor receive."""

    def __init__(self, nodes: int, seed: int, *, loss: float, starved: frozenset[int]) -> None:
        self.now = 0.0
        self.deaths: list[tuple[float, int, int]] = []
        self.suspected = 0
        self.packets = 0
        self.crashed: set[int] = set()
        self._rng = random.Random(seed)
        self._loss, self._starved = loss, starved
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._sequence = 0
        self._nodes = [_Node(number) for number in range(nodes)]
        self._least_s = MULT * max(1.0, math.log10(nodes)) * PROBE_S
        self._sends = MULT * math.ceil(math.log10(nodes + 1))
        for node in self._nodes:
            self._at(self._rng.random() * PROBE_S, lambda node=node: self._probe(node))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = until

    def _at(self, wait_s: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + wait_s, self._number, act))

    def _send(self, source: _Node, target: int, act: Callable[[_Node], None]) -> None:
        news = self._news(source)
        self.packets += 1
        if target in self.crashed or source.number in self.crashed or self._rng.random() < self._loss:
            return
        node = self._nodes[target]
        arrives = self.now + 0.0002 + 0.0008 * self._rng.random()
        if target in self._starved:
            arrives = max(node.read_at, arrives + self._rng.uniform(0.5, 2.5))
            node.read_at = arrives

        def receive() -> None:
            if target in self.crashed:
                return
            for about, state, incarnation, accuser in news:
                self._hear(node, about, state, incarnation, accuser)
            act(node)

        self._at(arrives - self.now, receive)

    def _news(self, node: _Node) -> list[tuple[int, int, int, int]]:
        found = []
        for about in sorted(node.queue, key=lambda one: node.queue[one][3])[:PIGGYBACK]:
            item = node.queue[about]
            found.append((about, item[0], item[1], item[2]))
            item[3] += 1
            if item[3] >= self._sends:
                del node.queue[about]
        return found

    def _spread(self, node: _Node, about: int, state: int, accuser: int) -> None:
        incarnation = node.incarnation if about == node.number else node.view[about][1]
        node.queue[about] = [state, incarnation, accuser, 0]
        if not node.is_gossiping:
            node.is_gossiping = True
            self._at(self._rng.random() * GOSSIP_S, lambda: self._gossip(node))

    def _gossip(self, node: _Node) -> None:
        if node.number in self.crashed or not node.queue:
            node.is_gossiping = False
            return
        for target in self._some(node, FANOUT):
            self._send(node, target, lambda _: None)
        self._at(GOSSIP_S, lambda: self._gossip(node))

    def _some(self, node: _Node, count: int) -> list[int]:
        found: list[int] = []
        for _ in range(4 * count):
            one = self._rng.randrange(len(self._nodes))
            if one != node.number and one not in found and self._state(node, one) != DEAD:
                found.append(one)
                if len(found) == count:
                    break
        return found

    def _state(self, node: _Node, about: int) -> int:
        return node.view.get(about, (ALIVE, 0))[0]

    def _probe(self, node: _Node) -> None:
        if node.number in self.crashed:
            return
        length = PROBE_S * (node.awareness + 1)
        self._at(length, lambda: self._probe(node))
        target = self._next(node)
        if target is None:
            return
        self._sequence += 1
        sequence = self._sequence
        self._ping(node, target, sequence, node)
        self._at(PROBE_TIMEOUT_S, lambda: self._ask_others(node, target, sequence))
        self._at(length - 0.001, lambda: self._judge(node, target, sequence))

    def _next(self, node: _Node) -> int | None:
        for _ in range(2 * len(self._nodes)):
            if not node.turns:
                node.turns = [one.number for one in self._nodes if one.number != node.number]
                self._rng.shuffle(node.turns)
            target = node.turns.pop()
            if self._state(node, target) != DEAD:
                return target
        return None

    def _ping(self, node: _Node, target: int, sequence: int, answer_to: _Node) -> None:
        if self._state(node, target) == SUSPECT:  # buddy system: the suspect hears of it with the ping
            self._spread(node, target, SUSPECT, node.number)
        self._send(node, target, lambda there: self._pong(there, node, sequence, answer_to))

    def _pong(self, there: _Node, relay: _Node, sequence: int, answer_to: _Node) -> None:
        if relay is answer_to:
            self._send(there, relay.number, lambda here: here.acked.add(sequence))
        else:
            self._send(
                there,
                relay.number,
                lambda mid: self._send(mid, answer_to.number, lambda here: here.acked.add(sequence)),
            )

    def _ask_others(self, node: _Node, target: int, sequence: int) -> None:
        if sequence in node.acked:
            return
        for helper in [one for one in self._some(node, INDIRECT + 1) if one != target][:INDIRECT]:
            self._send(node, helper, lambda mid: self._ping(mid, target, sequence, node))

    def _judge(self, node: _Node, target: int, sequence: int) -> None:
        if sequence in node.acked:
            node.acked.discard(sequence)
            node.awareness = max(0, node.awareness - 1)
            return
        node.awareness = min(MAX_AWARENESS, node.awareness + 1)
        self._hear(node, target, SUSPECT, node.view.get(target, (ALIVE, 0))[1], node.number)

    def _hear(self, node: _Node, about: int, state: int, incarnation: int, accuser: int) -> None:
        if about == node.number:
            if state != ALIVE and incarnation >= node.incarnation:
                node.incarnation = incarnation + 1
                node.awareness = min(MAX_AWARENESS, node.awareness + 1)
                self._spread(node, about, ALIVE, node.number)
            return
        known, known_incarnation = node.view.get(about, (ALIVE, 0))
        if state == SUSPECT and known == SUSPECT and incarnation == known_incarnation:
            suspicion = node.suspicions.get(about)
            if suspicion is not None and accuser not in suspicion.accusers and len(suspicion.accusers) < 3:
                suspicion.accusers.add(accuser)
                self._spread(node, about, SUSPECT, accuser)
                self._set_timer(node, about, suspicion)
            return
        if incarnation < known_incarnation or (incarnation == known_incarnation and state <= known):
            return
        node.view[about] = (state, incarnation)
        self._spread(node, about, state, accuser)
        if state == SUSPECT:
            suspicion = _Suspicion(incarnation, self.now, {accuser})
            node.suspicions[about] = suspicion
            self.suspected += 1
            self._set_timer(node, about, suspicion)
        else:
            node.suspicions.pop(about, None)
            if state == DEAD:
                self.deaths.append((self.now, node.number, about))

    def _set_timer(self, node: _Node, about: int, suspicion: _Suspicion) -> None:
        confirmations = MULT - 2
        most_s = MAX_MULT * self._least_s
        share = math.log(len(suspicion.accusers)) / math.log(confirmations + 1)
        timeout = max(self._least_s, most_s - (most_s - self._least_s) * share)
        due = suspicion.began_at + timeout

        def expire() -> None:
            if node.number not in self.crashed and node.suspicions.get(about) is suspicion:
                self._hear(node, about, DEAD, suspicion.incarnation, node.number)

        self._at(max(0.0, due - self.now), expire)
