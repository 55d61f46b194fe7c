"""The node's state document, from what it knows. Pure."""

from dataclasses import dataclass

from gpuherd import __version__
from gpuherd.health import Action, Verdict
from gpuherd.wire.documents import Gpu, Observed, RefusedDesired, State, Versions, Witness
from gpuherd_agent.doors import Identity
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.policy import wants_to_serve
from gpuherd_agent.readings import NvmlCode, Snapshot
from gpuherd_agent.station import Rules, Station


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the document is made of; ``seq`` and ``wall`` are of this publication."""

    identity: Identity
    seq: int
    wall: float
    station: Station
    memory: NodeMemory
    snapshot: Snapshot
    verdict: Verdict
    witness: Witness
    ray_version: str
    python_version: str
    refused: RefusedDesired | None


def gpus(snapshot: Snapshot, verdict: Verdict) -> tuple[Gpu, ...]:
    """Return every GPU ever seen since the start; a lost one stays, as not present and not healthy."""
    read = snapshot.probe.gpus if snapshot.probe else ()
    present = {g.gpu for g in read if NvmlCode.GPU_IS_LOST not in g.errors.values()}
    worst: dict[str, str] = {}
    for finding in verdict.findings:
        if finding.gpu is not None and finding.action >= Action.CORDON:
            worst.setdefault(finding.gpu, finding.reason)
    return tuple(
        Gpu(uuid=u, present=u in present, healthy=u in present and u not in worst, reason=worst.get(u, ""))
        for u in dict.fromkeys((*snapshot.known, *sorted(present)))
    )


def compose(told: Told, rules: Rules) -> State:
    """Return the document that tells all of it."""
    station, memory, probe = told.station, told.memory, told.snapshot.probe
    orders = memory.orders
    return State(
        cluster=told.identity.cluster,
        node=told.identity.node,
        epoch=told.identity.epoch,
        seq=told.seq,
        sent_at=told.wall,
        boot_id=told.identity.boot_id,
        phase=station.phase,
        reason=station.reason[:1_000],
        serve=bool(wants_to_serve(memory, rules)),
        verdict=told.verdict,
        holds=memory.holds,
        wants_drain=station.wants_drain[:1_000],
        gpus=gpus(told.snapshot, told.verdict),
        gpus_declared=told.snapshot.declared,
        gpus_counted=probe.counted if probe else None,
        versions=Versions(
            agent=__version__,
            ray=told.ray_version,
            python=told.python_version,
            driver=probe.driver if probe else "",
        ),
        witness=told.witness,
        ray_node_id=memory.raylet.node_id if memory.raylet else None,
        head_reachable=station.head_reachable,
        observed=None
        if orders is None
        else Observed(
            term=orders.mark.term,
            generation=orders.mark.generation,
            digest=orders.mark.digest,
            phase=station.phase,
        ),
        refused=told.refused,
    )
