"""What must hold in every run, whatever fails. Pure: a record in, breaches out.

Each judge also says how much it looked at, so that a run in which an invariant could not bite is seen.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpuherd.phases import Phase
from gpuherd_sim.journal import Entry
from gpuherd_sim.record import Record

BY_US: Final = ("stopped by the agent", "killed by the agent")
OUTAGE_S: Final = 5.0
"""A head that was down for longer has told nothing fresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One invariant over one run: how many things it looked at, and each breach in words."""

    looked_at: int
    breaches: tuple[str, ...] = ()


Judge = Callable[[Record], Judgement]


def no_task_lost_by_us(record: Record) -> Judgement:
    """A task ends early by our act only on a node that is truly sick or that Ray has given up."""
    looked, breaches = 0, []
    given_up: set[str] = set()
    for entry in record.of("task.started", "task.lost", "node.dead", "node.joined", "fault"):
        what = entry.detail.get("what")
        if entry.kind == "task.started":
            looked += 1
        elif entry.kind == "node.dead":
            given_up.add(entry.node)
        elif entry.kind == "node.joined":
            given_up.discard(entry.node)
        elif what == "head restarted empty":
            given_up.update(e.node for e in record.of("node.joined") if e.at <= entry.at)
        elif (
            entry.kind == "task.lost"
            and entry.detail["cause"] in BY_US
            and entry.node not in given_up
            and not record.sick(entry.node, entry.at)
        ):
            breaches.append(f"{entry.at:.1f} s: task {entry.detail['task']} on healthy {entry.node}")
    return Judgement(looked_at=looked, breaches=tuple(breaches))


def budget_is_kept(record: Record) -> Judgement:
    """At most B nodes of a pool are out by drains that need a slot, from the request to the release.

    A head restarted empty forgets all claims; they are made anew.
    """
    looked, breaches = 0, []
    out: dict[str, set[str]] = {}
    for entry in record.of("drain.asked", "slot.claimed", "slot.released", "fault"):
        if entry.kind == "fault":
            if entry.detail["what"] == "head restarted empty":
                out.clear()
            continue
        pool = entry.detail["pool"]
        if pool is None:
            continue
        looked += 1
        nodes = out.setdefault(str(pool), set())
        if entry.kind == "slot.released":
            nodes.discard(entry.node)
            continue
        nodes.add(entry.node)
        allowed = {str(name): n for name, n in record.budgets.items()}.get(str(pool), 1)
        if len(nodes) > allowed:
            breaches.append(f"{entry.at:.1f} s: {len(nodes)} of {pool} out, {allowed} allowed")
    return Judgement(looked_at=looked, breaches=tuple(breaches))


def only_the_own_agent_drains(record: Record) -> Judgement:
    """DrainNode is asked by the agent of the node that the raylet runs on, and by nobody else."""
    homes = {e.detail["node_id"]: e.node for e in record.of("raylet.started")}
    asked = list(record.of("drain.asked"))
    breaches = tuple(
        f"{e.at:.1f} s: {e.node} asked to drain a raylet of {homes.get(e.detail['node_id'], 'nobody')}"
        for e in asked
        if homes.get(e.detail["node_id"]) != e.node
    )
    return Judgement(looked_at=len(asked), breaches=breaches)


def missing_data_never_shrinks(record: Record) -> Judgement:
    """No node is told to leave while the head has been silent: no demand seen is not no demand."""
    wanted: dict[str, bool] = {}
    breaches = []
    for order in record.ordered:
        turned_off = wanted.get(order.node, False) and not order.serve
        wanted[order.node] = order.serve
        since = record.head_down_since(order.at)
        if turned_off and since is not None and order.at - since > OUTAGE_S:
            breaches.append(f"{order.at:.1f} s: {order.node} turned off, head down since {since:.1f} s")
    return Judgement(looked_at=len(record.ordered), breaches=tuple(breaches))


def a_held_node_never_joins(record: Record) -> Judgement:
    """No raylet is ordered while a hold stands in the node's store."""
    return _at_each_start(record, _is_held)


def an_unwanted_node_stays_out(record: Record) -> Judgement:
    """No raylet is ordered while the stored orders say that the node shall not serve."""
    return _at_each_start(record, _is_unwanted)


def _at_each_start(record: Record, why_not: Callable[[Record, Entry], str]) -> Judgement:
    starts = list(record.of("raylet.ordered"))
    found = ((e, why_not(record, e)) for e in starts)
    return Judgement(
        looked_at=len(starts), breaches=tuple(f"{e.at:.1f} s: {e.node} {why}" for e, why in found if why)
    )


def _is_held(record: Record, start: Entry) -> str:
    memory = record.memory(start.node, start.at)
    return f"joins though held: {memory.holds[0].reason}" if memory and memory.holds else ""


def _is_unwanted(record: Record, start: Entry) -> str:
    memory = record.memory(start.node, start.at)
    return "joins though not wanted" if memory and memory.orders and not memory.orders.serve else ""


def every_drain_ends(record: Record) -> Judgement:
    """A drain that Ray began ends with the raylet, or the node still says at the end that it drains."""
    begun = {e.detail["node_id"]: e for e in record.of("drain.begun")}
    gone = {e.detail["node_id"] for e in record.of("raylet.gone")}
    reported = {
        name for name, state in record.states.items() if state.phase in (Phase.DRAINING, Phase.LEAVING)
    }
    breaches = tuple(
        f"{e.at:.1f} s: the drain of {e.node} never ended and nobody says so"
        for node_id, e in begun.items()
        if node_id not in gone and e.node not in reported
    )
    return Judgement(looked_at=len(begun), breaches=breaches)


def one_raylet_a_node(record: Record) -> Judgement:
    """No node ever runs two raylets."""
    running: dict[str, set[object]] = {}
    looked, breaches = 0, []
    for entry in record.of("raylet.started", "raylet.gone"):
        here = running.setdefault(entry.node, set())
        if entry.kind == "raylet.gone":
            here.discard(entry.detail["pid"])
            continue
        looked += 1
        here.add(entry.detail["pid"])
        if len(here) > 1:
            breaches.append(f"{entry.at:.1f} s: {len(here)} raylets on {entry.node}")
    return Judgement(looked_at=looked, breaches=tuple(breaches))


def every_task_finishes(record: Record) -> Judgement:
    """At the end no task is left over."""
    breaches = (f"{record.unfinished} of {record.submitted} tasks unfinished",) if record.unfinished else ()
    return Judgement(looked_at=record.submitted, breaches=breaches)


def sick_gpus_are_not_offered(record: Record) -> Judgement:
    """No raylet is ordered with a GPU that is truly gone, and one that has it leaves or says why not."""
    looked, breaches = 0, []
    offered: dict[str, tuple[str, ...]] = {}
    for entry in record.of("raylet.ordered", "raylet.gone"):
        gpus = str(entry.detail.get("gpus", "")).split(",") if entry.kind == "raylet.ordered" else []
        offered[entry.node] = tuple(gpus)
        looked += len(gpus)
    end = record.entries[-1].at if record.entries else 0.0
    for node, state in record.states.items():
        still = sorted(record.sick(node, end) & set(offered.get(node, ())))
        if still and not (state.wants_drain or state.phase is not Phase.MEMBER):
            breaches.append(f"{node} still offers {', '.join(still)} at the end and says nothing")
    return Judgement(looked_at=looked, breaches=tuple(breaches))


INVARIANTS: Final[tuple[Judge, ...]] = (
    no_task_lost_by_us,
    budget_is_kept,
    only_the_own_agent_drains,
    missing_data_never_shrinks,
    a_held_node_never_joins,
    an_unwanted_node_stays_out,
    every_drain_ends,
    one_raylet_a_node,
    every_task_finishes,
    sick_gpus_are_not_offered,
)
"""Every invariant there is."""


def judge(record: Record) -> Mapping[str, Judgement]:
    """Return what each invariant says of the run, by its name."""
    return {check.__name__: check(record) for check in INVARIANTS}


def breaches(judged: Mapping[str, Judgement]) -> Iterator[str]:
    """Yield every breach with the name of its invariant."""
    for name, judgement in judged.items():
        for breach in judgement.breaches:
            yield f"{name}: {breach}"
