"""Builders of fleets as the scaler sees them, and a model fleet that follows its plans."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuherd.health import Action, Severity
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, PoolName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import ClusterSight, Gang, RayNode, RayStatus, Shape, Strategy
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot, Sourced
from gpuherd_autoscaler.wishes import Wishes

POOL = PoolName("a")
IDLE_WITNESS = Witness(ray_workers=0, foreign_gpu_processes=0)


def pool(size: int = 4, **given: object) -> Pool:
    defaults: dict[str, object] = {"min": 0, "max": size, "gpus_per_node": 8, "cooldown_s": 0.0}
    return Pool(name=POOL, nodes=(f"n-[1-{size}]",), **{**defaults, **given})  # type: ignore[arg-type]


def limits(*pools: Pool) -> Limits:
    return Limits(pools=pools or (pool(),))


def gpus(each: float = 1.0, count: int = 1, **others: float) -> Shape:
    resources = tuple(sorted({**({"GPU": each} if each else {}), **others}.items()))
    return Shape(resources=resources, count=count)


def gang(strategy: Strategy, *shapes: Shape) -> Gang:
    return Gang(shapes=shapes, strategy=strategy, details=f"01:{strategy}|PENDING")


def ray_node(
    name: str, *, free: float = 8.0, status: RayStatus = RayStatus.IDLE, total: float = 8.0
) -> RayNode:
    return RayNode(
        id=RayNodeId(f"id-{name}"),
        name=NodeName(name),
        status=status,
        total={"GPU": total, "CPU": 96.0},
        available={"GPU": free, "CPU": 96.0},
    )


def hold(owner: str, reason: str = "gpu lost") -> Hold:
    return Hold(id=HoldId(f"h-{owner}"), owner=owner, kind=HoldKind.DRAIN, reason=reason, since=0.0)


def standby(name: str, **changed: object) -> NodeView:
    view = NodeView(
        name=NodeName(name),
        pool=POOL,
        lifecycle=Lifecycle.STANDBY,
        reason="waits outside Ray",
        known=True,
        phase=Phase.OUTSIDE,
        age_s=1.0,
        online=True,
        severity=Severity.OK,
        gpus_declared=8,
        gpus_counted=8,
        gpus_usable=8,
        witness=IDLE_WITNESS,
    )
    return replace(view, **changed)  # type: ignore[arg-type]


def serving(name: str, *, free: float = 8.0, **changed: object) -> NodeView:
    status = RayStatus.IDLE if free == 8.0 else RayStatus.RUNNING
    given = {"lifecycle": Lifecycle.SERVING, "phase": Phase.MEMBER, "serve": True}
    return standby(name, **{**given, "ray": ray_node(name, free=free, status=status), **changed})


def booting(name: str, **changed: object) -> NodeView:
    return standby(name, **{"lifecycle": Lifecycle.BOOTING, "serve": True, "reason": "asked", **changed})


def sick(name: str, **changed: object) -> NodeView:
    """Return a node that was asked to serve and that health holds outside."""
    given = {
        "lifecycle": Lifecycle.QUARANTINED,
        "serve": True,
        "severity": Severity.CRITICAL,
        "action": Action.DRAIN,
        "holds": (hold("health"),),
    }
    return standby(name, **{**given, **changed})


def silent(name: str, **changed: object) -> NodeView:
    return standby(name, **{"lifecycle": Lifecycle.LOST, "age_s": 99.0, "online": False, **changed})


def picture(
    nodes: Iterable[NodeView],
    pending: Iterable[Shape] = (),
    *,
    at: float = 0.0,
    session: str = "s",
    freshness: Freshness = Freshness.FRESH,
    gangs: Iterable[Gang] = (),
    requested: Iterable[Shape] = (),
    triggers: Mapping[str, Sourced[int]] | None = None,
    windows: Iterable[str] = (),
    wishes: Wishes | None = None,
) -> Snapshot:
    listed = list(nodes)
    sight = ClusterSight(
        session=session,
        nodes=tuple(n.ray for n in listed if n.ray is not None),
        pending=tuple(pending),
        gangs=tuple(gangs),
        requested=tuple(requested),
    )
    return Snapshot(
        at=at,
        cluster=Sourced(value=sight, freshness=freshness, read_at=at),
        triggers=triggers or {},
        open_windows=Sourced(value=tuple(windows), freshness=Freshness.FRESH, read_at=at),
        wishes=wishes or Wishes(),
        nodes={n.name: n for n in listed},
    )


@dataclass(slots=True)
class Scaler:
    """Decides again and again, five seconds apart, and keeps the memory."""

    bounds: Limits = field(default_factory=limits)
    memory: Memory = field(default_factory=Memory)
    now: float = 0.0

    def look(self, nodes: Iterable[NodeView], pending: Iterable[Shape] = (), **given: object) -> Plan:
        snapshot = picture(nodes, pending, at=self.now, **given)  # type: ignore[arg-type]
        plan, self.memory = decide(snapshot, self.memory, self.bounds, self.now)
        self.now += 5.0
        return plan

    def look_for(
        self, duration_s: float, nodes: Iterable[NodeView], pending: Iterable[Shape] = (), **given: object
    ) -> Plan:
        """Return the last plan of looks over so many seconds; the fleet does not follow any of them."""
        listed, shapes, until = list(nodes), list(pending), self.now + duration_s
        plan = self.look(listed, shapes, **given)
        while self.now <= until:
            plan = self.look(listed, shapes, **given)
        return plan


def followed(nodes: Iterable[NodeView], plan: Plan) -> list[NodeView]:
    """Return the nodes once they have done what the plan asks, at once and without a fault."""
    return [
        serving(n.name, ray=n.ray or ray_node(n.name))
        if n.name in plan.serve
        else standby(n.name)
        if n.name in plan.release
        else n
        for n in nodes
    ]
