"""Gossip in virtual time beside memberlist's rules: false deaths, detection, traffic, memory.

The shipped core with its real bytes and a cheaper signature; one JSON object on its last line. ``--full``
repeats every cell 100 times and adds 1,000 nodes with more rounds.
"""

import argparse
import gc
import json
import math
import random
import statistics
import sys
import time
import tracemalloc

from bench.models.memberlist import Memberlist

from gpuherd.gossip.inputs import Recall, Tick
from gpuherd.gossip.outputs import VerdictChanged
from gpuherd.gossip.verdicts import Verdict
from gpuherd_sim.gossip.node import Starvation
from gpuherd_sim.gossip.world import Plan, World

CELLS = (
    # name, nodes, starved, loss
    ("50 nodes, 5 % loss", 50, 0, 0.05),
    ("50 nodes, 1 starved, 1 % loss", 50, 1, 0.01),
    ("50 nodes, 5 starved, 5 % loss", 50, 5, 0.05),
    ("200 nodes, 5 % loss", 200, 0, 0.05),
    ("200 nodes, 2 starved, 3 % loss", 200, 2, 0.03),
    ("200 nodes, 10 starved, 5 % loss", 200, 10, 0.05),
)
GONE = frozenset({Verdict.AGENT_DEAD, Verdict.UNREACHABLE, Verdict.FAILED})
HEADERS_BYTES = 28
"""IP and UDP of one packet; TCP's are counted like them."""
BUDGET_IDLE_BYTES = 400
BUDGET_IDLE_PACKETS = 2.4
BUDGET_DEATH_BYTES = 2_500
BUDGET_DEATH_PACKETS = 5.0
BUDGET_MASS_S = 8.0
PEER_BYTES_AT_1000 = 1_640
"""kinship's own simulator at 1,000 nodes (its docs/results/tuning.md): 1,400 of them its full push-pull."""


def fleet(nodes: int, seed: int) -> World:
    """Return a settled fleet."""
    world = World(Plan(nodes=nodes, seed=seed))
    world.run(0.3)
    world.acquaint()
    world.run(3.0 + math.log10(nodes))
    world.told.clear()
    return world


def verdicts(world: World, wanted: frozenset[Verdict]) -> set[str]:
    """Return whom anybody gave one of these verdicts."""
    return {
        told.event.name
        for told in world.told
        if isinstance(told.event, VerdictChanged) and told.event.after in wanted
    }


def cell(nodes: int, starved: int, loss: float, *, runs: int, seconds: float) -> dict[str, object]:
    """Return false deaths of one cell, ours and by memberlist's rules, with the same victims."""
    failed = gone = peer_dead = 0
    packets = size = peer_packets = 0.0
    for seed in range(runs):
        victims = random.Random(seed).sample(range(nodes), starved)
        world = fleet(nodes, seed)
        world.network.loss = loss
        for victim in victims:
            world.starve(victim, Starvation(timers=False))
        before, bytes_before = world.packets_sent, world.bytes_sent
        world.run(seconds)
        packets += (world.packets_sent - before) / nodes / seconds / runs
        size += (world.bytes_sent - bytes_before) / nodes / seconds / runs
        failed += len(verdicts(world, frozenset({Verdict.FAILED})))
        gone += len(verdicts(world, GONE))
        peer = Memberlist(nodes, seed, loss=loss, starved=frozenset(victims))
        peer.run(seconds)
        peer_dead += len({who for _, _, who in peer.deaths})
        peer_packets += peer.packets / nodes / seconds / runs
    return {
        "runs": runs,
        "seconds": seconds,
        "false_failed": failed,
        "false_unreachable_or_agent_dead": gone,
        "memberlist_false_dead": peer_dead,
        "packets_per_s": round(packets, 2),
        "bytes_per_s": round(size),
        "memberlist_packets_per_s": round(peer_packets, 2),
    }


def detection(nodes: int, *, runs: int) -> dict[str, object]:
    """Return when all know of a killed agent and of a silent host, and what that costs."""
    found: dict[str, object] = {}
    for fault in ("killed", "silent"):
        first, everybody, packets, size = [], [], [], []
        for seed in range(runs):
            world = fleet(nodes, seed)
            world.run(random.Random(seed).random() * 2)
            victim = random.Random(seed).randrange(nodes)
            (world.kill if fault == "killed" else world.power_off)(victim)
            at, before, bytes_before = world.now, world.packets_sent, world.bytes_sent
            world.run(25.0)
            packets.append((world.packets_sent - before) / nodes / 25)
            size.append((world.bytes_sent - bytes_before) / nodes / 25)
            times: dict[int, float] = {}
            for told in world.told:
                if isinstance(told.event, VerdictChanged) and told.event.after in GONE:
                    times.setdefault(told.node, told.at - at)
            assert len(times) == nodes - 1, f"seed {seed}: {len(times)} of {nodes - 1} know"
            first.append(min(times.values()))
            everybody.append(max(times.values()))
        found[fault] = {
            "runs": runs,
            "first_p50_s": round(statistics.median(first), 2),
            "all_p50_s": round(statistics.median(everybody), 2),
            "all_worst_s": round(max(everybody), 2),
            "packets_per_s": round(statistics.mean(packets), 2),
            "bytes_per_s": round(statistics.mean(size)),
        }
    return found


def memberlist_detection(nodes: int, *, runs: int) -> dict[str, float]:
    """Return when all know of a silent host by memberlist's rules."""
    everybody = []
    for seed in range(runs):
        peer = Memberlist(nodes, seed, loss=0.0, starved=frozenset())
        peer.run(5.0 + random.Random(seed).random())
        victim = random.Random(seed).randrange(nodes)
        peer.crashed.add(victim)
        at = peer.now
        peer.run(60.0)
        everybody.append(max(when - at for when, _, who in peer.deaths if who == victim))
    return {"runs": runs, "all_p50_s": round(statistics.median(everybody), 2)}


def mass_loss(nodes: int, share: float, *, runs: int) -> dict[str, object]:
    """Return when all that live know of all that died at once."""
    took = []
    for seed in range(runs):
        world = fleet(nodes, seed)
        dead = set(range(int(nodes * share)))
        at = world.now
        for victim in dead:
            world.power_off(victim)
        known: set[tuple[int, str]] = set()
        wanted = (nodes - len(dead)) * len(dead)
        while len(known) < wanted and world.now - at < 60.0:
            world.run(0.25)
            known.update(
                (told.node, told.event.name)
                for told in world.told
                if isinstance(told.event, VerdictChanged) and told.event.after in GONE
            )
            world.told.clear()
        took.append(world.now - at)
    return {"runs": runs, "all_know_p50_s": round(statistics.median(took), 2), "worst_s": round(max(took), 2)}


def memory_kib(nodes: int) -> int:
    """Return what the table of ``nodes`` members adds to one node."""
    world = World(Plan(nodes=nodes, seed=1, has_roster=False))
    entries = tuple((node.identity, node.core.own_record) for node in world.nodes[1:])
    gc.collect()
    tracemalloc.start()
    world.command(0, Recall(known=entries))
    while world.nodes[0].core.deadline == 0.0:
        world.command(0, Tick())
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(held / 1024)


def idle(nodes: int, *, seconds: float) -> dict[str, object]:
    """Return what a node sends when nothing happens, and how much memory it takes."""
    added = memory_kib(nodes)
    world = fleet(nodes, 1)
    before, bytes_before = world.packets_sent, world.bytes_sent
    began = time.perf_counter()
    world.run(seconds)
    took = time.perf_counter() - began
    packets = (world.packets_sent - before) / nodes / seconds
    size = (world.bytes_sent - bytes_before) / nodes / seconds
    return {
        "packets_per_s": round(packets, 2),
        "bytes_per_s": round(size),
        "bytes_per_s_with_headers": round(size + HEADERS_BYTES * packets),
        "memory_kib_a_node": added,
        "times_real_time": round(seconds / took, 1),
    }


def main() -> int:
    """Run all parts; exit status 1 when a false `failed` or a budget's breach was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="100 runs of every cell; takes an hour or two")
    full = parser.parse_args().full
    result: dict[str, object] = {}
    began = time.perf_counter()

    def show(key: str, value: object) -> None:
        result[key] = value
        print(f"{time.perf_counter() - began:6.0f} s  {key}: {json.dumps(value)}", flush=True)

    for nodes in (30, 100, 1_000):
        show(f"idle {nodes}", idle(nodes, seconds=20.0))
    for nodes, runs in ((30, 40), (100, 20), (1_000, 2 if full else 0)):
        if runs:
            show(f"one death {nodes}", detection(nodes, runs=runs))
        show(f"memberlist, one death {nodes}", memberlist_detection(nodes, runs=10 if nodes < 1_000 else 1))
    mass = mass_loss(100, 0.4, runs=20 if full else 4)
    show("40 % of 100 lost at once", mass)
    cells = []
    for name, nodes, starved, loss in CELLS:
        runs = 100 if full or nodes == 50 else 5
        found = cell(nodes, starved, loss, runs=runs, seconds=30.0 if full else 20.0)
        cells.append(found)
        show(name, found)
    wrong = [one for one in cells if one["false_failed"]]
    result["passed"] = not wrong and _within_budget(result)
    print(json.dumps(result))
    return 0 if result["passed"] else 1


def _within_budget(result: dict[str, object]) -> bool:
    quiet, death, mass = result["idle 1000"], result["one death 30"], result["40 % of 100 lost at once"]
    assert isinstance(quiet, dict)
    assert isinstance(death, dict)
    assert isinstance(mass, dict)
    checks = {
        "idle bytes": quiet["bytes_per_s_with_headers"] <= min(BUDGET_IDLE_BYTES, PEER_BYTES_AT_1000),
        "idle packets": quiet["packets_per_s"] <= BUDGET_IDLE_PACKETS,
        "death bytes": death["silent"]["bytes_per_s"] <= BUDGET_DEATH_BYTES,
        "death packets": death["silent"]["packets_per_s"] <= BUDGET_DEATH_PACKETS,
        "mass loss": mass["all_know_p50_s"] <= BUDGET_MASS_S,
    }
    result["checks"] = checks
    return all(checks.values())


if __name__ == "__main__":
    sys.exit(main())
