"""Fleets in virtual time, and what their nodes have told."""

from collections.abc import Iterable

from gpuherd.gossip.outputs import VerdictChanged
from gpuherd.gossip.verdicts import Verdict
from gpuherd_sim.gossip.world import Plan, World

GONE = frozenset({Verdict.AGENT_DEAD, Verdict.UNREACHABLE, Verdict.FAILED})
ANY = GONE | {Verdict.STALLED}


def settled(nodes: int, seed: int, *, settle_s: float = 6.0, **plan: object) -> World:
    """Return a fleet in which everybody knows everybody, with what it told so far forgotten."""
    world = World(Plan(nodes=nodes, seed=seed, **plan))  # type: ignore[arg-type]  # fields of Plan
    world.run(settle_s)
    for _ in range(20):
        if is_agreed(world):
            break
        world.run(1.0)
    else:
        raise AssertionError(f"seed {seed}: {nodes} nodes do not agree after {world.now:.0f} s")
    world.told.clear()
    return world


def running(world: World) -> list[int]:
    """Return the nodes whose process runs."""
    return [node.number for node in world.nodes if node.runs]


def tables(world: World, nodes: Iterable[int] | None = None) -> set[tuple[tuple[str, int, int], ...]]:
    """Return the different tables of these nodes (all that run): name, epoch, version."""
    chosen = running(world) if nodes is None else nodes
    return {
        tuple((m.name, m.epoch, m.version) for m in world.nodes[i].core.view(world.now).members)
        for i in chosen
    }


def is_agreed(world: World) -> bool:
    """Return whether all that run have one table with all of them in it."""
    found = tables(world)
    return len(found) == 1 and len(next(iter(found))) >= len(running(world))


def verdict(world: World, observer: int, subject: int) -> Verdict:
    """Return what one node holds of another."""
    name = world.name(subject)
    members = world.nodes[observer].core.view(world.now).members
    return next(member.verdict for member in members if member.name == name)


def accused(world: World, verdicts: frozenset[Verdict] = ANY) -> set[int]:
    """Return whom any node ever gave one of these verdicts, since the fleet had settled."""
    by_name = {world.name(node.number): node.number for node in world.nodes}
    return {
        by_name[told.event.name]
        for told in world.told
        if isinstance(told.event, VerdictChanged) and told.event.after in verdicts
    }


def learned_at(world: World, subject: int, verdicts: frozenset[Verdict] = GONE) -> dict[int, float]:
    """Return when each node first held one of these verdicts of ``subject``."""
    name, first = world.name(subject), {}
    for told in world.told:
        event = told.event
        if isinstance(event, VerdictChanged) and event.name == name and event.after in verdicts:
            first.setdefault(told.node, told.at)
    return first
