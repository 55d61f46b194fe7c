"""Mutated packets against one node: as noise, and signed by a member that turned bad."""

import random
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.identity import NameHash, name_hash
from gpuherd.gossip.inputs import CallEnd, CallResult, Datagram, Request, Tick
from gpuherd.gossip.outputs import Answer, Call, Output, SendDatagram
from gpuherd_sim.gossip.mutation import mutate, recount, reseal
from gpuherd_sim.gossip.world import Plan, World

_STEP_S = 0.02
_MAX_OUTPUTS = 400
"""Of one input: a roll call of 127 pings twice is the most that one tick may cause."""


class TooMuch(AssertionError):
    """One packet made the node do more than it may."""


@dataclass(slots=True)
class Outcome:
    """What a run of the fuzzer found besides not crashing."""

    packets: int = 0
    used: int = 0
    """Packets that passed the signature."""
    slowest_s: float = 0.0
    grown_kib: int = 0


def corpus(seed: int) -> tuple[bytes, ...]:
    """Return real packets and frames of a small fleet that joins, loses a node and reconciles."""
    world = World(Plan(nodes=5, seed=seed, keep_packets=400, keep_frames=100))
    world.run(8.0)
    world.power_off(4)
    world.run(6.0)
    return tuple(dict.fromkeys((*(payload for _, _, payload in world.kept), *world.streams.kept)))


def run(count: int, seed: int) -> Outcome:
    """Feed ``count`` mutated packets to a node. Raises whatever the node raises, and TooMuch."""
    rng = random.Random(seed)  # noqa: S311  repeatable, not secret
    packets = corpus(seed)
    world = World(Plan(nodes=5, seed=seed))
    world.run(10.0)
    node, bad = world.nodes[0], world.nodes[1]
    keys = {name_hash(one.identity.name): one.identity.key for one in world.nodes}
    outcome = Outcome()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    now = world.now
    for payload in _payloads(count, packets, rng, keys):
        now += _STEP_S
        outcome.packets += 1
        began = time.perf_counter()
        outputs = [*node.core.handle(_wrap(payload, rng, bad.address, now), now)]
        if node.core.deadline <= now:
            outputs.extend(node.core.handle(Tick(), now))
        outcome.slowest_s = max(outcome.slowest_s, time.perf_counter() - began)
        _check(outputs, outcome.packets)
    outcome.used = node.core.counters.packets_in - sum(node.core.counters.dropped.values())
    if len(node.core.view(now).members) > limits.MAX_MEMBERS + 1:
        raise TooMuch("the table outgrew its cap")
    outcome.grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return outcome


def _payloads(
    count: int, packets: tuple[bytes, ...], rng: random.Random, keys: Mapping[NameHash, bytes]
) -> Iterator[bytes]:
    for number in range(count):
        payload = mutate(rng.choice(packets), rng, packets)
        if number % 4:
            payload = reseal(recount(payload, 10_000 + number), keys)
        yield payload


def _wrap(payload: bytes, rng: random.Random, where: Address, now: float) -> Datagram | Request | CallResult:
    choice = rng.randrange(4)
    if choice == 0:
        return Request(request=1, source=where, payload=payload, received_at=now)
    if choice == 1:
        number = rng.randrange(200)
        return CallResult(call=number, end=CallEnd.ANSWERED, received_at=now, answer=payload)
    return Datagram(source=where, payload=payload, received_at=now)


def _check(outputs: list[Output], number: int) -> None:
    if len(outputs) > _MAX_OUTPUTS:
        raise TooMuch(f"packet {number} led to {len(outputs)} outputs")
    for output in outputs:
        if isinstance(output, SendDatagram) and len(output.payload) > limits.MAX_DATAGRAM_BYTES:
            raise TooMuch(f"packet {number} led to a datagram of {len(output.payload)} bytes")
        if isinstance(output, Call | Answer) and len(output.payload) > limits.MAX_FRAME_BYTES:
            raise TooMuch(f"packet {number} led to a frame of {len(output.payload)} bytes")
