"""The node's state document, from what it knows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuherd import __version__
from gpuherd.health import Action, Finding, Severity, Verdict
from gpuherd.names import GpuUuid
from gpuherd.phases import Phase
from gpuherd.wire.documents import Gpu, Observed, RefusedDesired, State, Versions, Witness
from gpuherd_agent.blockers import blockers
from gpuherd_agent.doors import Identity
from gpuherd_agent.memory import NodeMemory
from gpuherd_agent.moves import wants_to_serve
from gpuherd_agent.readings import GpuReading, NvmlCode, Snapshot
from gpuherd_agent.station import Rules, Station

REASON_MAX: Final = 200
MODEL_MAX: Final = 64
FINDING_MAX: Final = 500
FINDINGS_MAX: Final = 32
"""The worst ones; beyond that a document of 64 GPUs would outgrow what its readers take (64 KiB)."""


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
    """What concerns the node with the GPUs that it offers."""
    of_gpus: Verdict
    """Every finding at its full weight: what each GPU's row is made of."""
    witness: Witness
    work: tuple[str, ...]
    """Titles of the raylet's processes that run user code."""
    ray_version: str
    python_version: str
    refused: RefusedDesired | None


def gpus(snapshot: Snapshot, verdict: Verdict) -> tuple[Gpu, ...]:
    """Return every GPU ever seen since the start; a lost one stays, as not present and not healthy.

    ``healthy`` = it is present and nothing stronger than a watch is found on it.
    """
    read = {g.gpu: g for g in snapshot.probe.gpus} if snapshot.probe else {}
    findings: dict[GpuUuid, list[Finding]] = {}
    for finding in verdict.findings:
        if finding.gpu is not None:
            findings.setdefault(finding.gpu, []).append(finding)
    return tuple(
        _gpu(uuid, read.get(uuid), findings.get(uuid, ()), snapshot)
        for uuid in dict.fromkeys((*snapshot.known, *sorted(read)))
    )


def _gpu(uuid: GpuUuid, reading: GpuReading | None, findings: Sequence[Finding], snapshot: Snapshot) -> Gpu:
    is_present = reading is not None and NvmlCode.GPU_IS_LOST not in reading.errors.values()
    action = max((f.action for f in findings), default=Action.NONE)
    return Gpu(
        uuid=uuid,
        present=is_present,
        healthy=is_present and action < Action.CORDON,
        reason="; ".join(f.reason for f in findings)[:REASON_MAX],
        index=reading.index if reading is not None else None,
        model=reading.model[:MODEL_MAX] if reading is not None else "",
        pci_bus_id=(reading.pci_bus_id if reading is not None else "")
        or snapshot.pci_bus_ids.get(uuid, "")[:MODEL_MAX],
        severity=max((f.severity for f in findings), default=Severity.OK if is_present else Severity.UNKNOWN),
        action=action,
    )


def bounded(verdict: Verdict) -> Verdict:
    """Return the verdict as it is told: its worst findings, each with its reason cut."""
    worst = verdict.findings[:FINDINGS_MAX]
    return replace(verdict, findings=tuple(replace(f, reason=f.reason[:FINDING_MAX]) for f in worst))


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
        verdict=bounded(told.verdict),
        holds=memory.holds,
        wants_drain=station.wants_drain[:1_000],
        gpus=gpus(told.snapshot, told.of_gpus),
        gpus_declared=told.snapshot.declared,
        gpus_counted=probe.counted if probe else None,
        versions=Versions(
            agent=__version__,
            ray=told.ray_version,
            python=told.python_version,
            driver=probe.driver if probe else "",
        ),
        witness=told.witness,
        blockers=tuple(b[:200] for b in blockers(station.sight, told.work))
        if station.phase is Phase.DRAINING
        else (),
        latecomers=tuple(w[:200] for w in memory.drain.late) if memory.drain else (),
        obstacles=station.obstacles,
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
