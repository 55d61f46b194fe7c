"""Our own policy in a replay: the real ``decide`` over snapshots of the simulated fleet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpuherd import holds, slots
from gpuherd.health import Action, Severity
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import ClusterSight, Gang, RayNode, RayStatus, Shape
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot, Sourced
from gpuherd_sim.replay.policy import Decision
from gpuherd_sim.replay.world import Host, Power, World

_ENDLESS: Final = 1e12
_SILENT_S: Final = 1e6
_Key = tuple[object, ...]


class Ours:
    """Keeps the memory between decisions. The fleet is looked at without gaps, so idle clocks run on."""

    name = "ours"
    watches_health = True

    def __init__(self, limits: Limits) -> None:
        self._limits = replace(limits, sample_gap_s=_ENDLESS)
        self._memory = Memory()
        self._pools = {pool.name: pool for pool in limits.pools}
        self._views: dict[int, tuple[_Key, NodeView]] = {}
        self._read_at = 0.0
        self._sight: ClusterSight | None = None
        self._by_name: Mapping[NodeName, NodeView] = {}

    def decide(self, world: World, now: float, *, metrics_known: bool) -> Decision:
        """Return what the plan asks; see ``Policy``."""
        plan, self._memory = decide(
            self._snapshot(world, now, metrics_known), self._memory, self._limits, now
        )
        by_name = {host.name: host for host in world.hosts}
        return Decision(
            start=[by_name[name].index for name in plan.serve],
            stop=[by_name[name].index for name in plan.release],
            look_again_at=self._next_look(plan, now),
        )

    def may_take_out(self, world: World, host: Host) -> bool:
        """Count the slots of the pool; a host in repair gave its slot back when it was written off."""
        out = sum(other.draining for other in world.hosts if other.pool == host.pool)
        return out < slots.budget(len(self._pools[host.pool].names))

    def close(self) -> None:
        """Nothing was started."""

    def _next_look(self, plan: Plan, now: float) -> float | None:
        """Return when a clock of ours runs out next."""
        memory = self._memory
        due = [memory.turned_on_at.get(p.name, -_ENDLESS) + p.cooldown_s for p in self._limits.pools]
        due += [since + self._limits.join_timeout_s for since in memory.waiting_since.values()]
        for name, since in memory.idle_since.items():
            view = self._by_name.get(name)
            if view is not None and view.is_in_ray:
                due.append(since + self._pools[view.pool].idle_timeout_s)
        if plan.frozen:
            due.append(now + self._limits.thaw_s)
        return min((at for at in due if at > now), default=None)

    def _snapshot(self, world: World, now: float, metrics_known: bool) -> Snapshot:
        views = [self._view(host) for host in world.hosts]
        self._by_name = {view.name: view for view in views}
        if metrics_known or self._sight is None:
            self._sight = self._see(world, views)
            self._read_at = now
        cluster = Sourced(
            value=self._sight,
            freshness=Freshness.FRESH if metrics_known else Freshness.FAILED,
            read_at=self._read_at,
        )
        return Snapshot(at=now, cluster=cluster, nodes=dict(self._by_name))

    def _see(self, world: World, views: list[NodeView]) -> ClusterSight:
        whole = max(host.gpus for host in world.hosts)
        pending, gangs = [], []
        for size, count in world.pending.items():
            if size <= whole:
                pending.append(Shape(resources=(("GPU", float(size)),), count=count))
            else:
                each = Shape(resources=(("GPU", float(whole)),), count=-(-size // whole))
                gangs += [Gang(shapes=(each,))] * count
        return ClusterSight(
            session="replay",
            nodes=tuple(view.ray for view in views if view.ray is not None),
            pending=tuple(pending),
            gangs=tuple(gangs),
        )

    def _view(self, host: Host) -> NodeView:
        wants_drain = host.sick_gpu and host.takes_work
        key = (
            *(host.power, host.asked, host.free, len(host.running)),
            *(host.draining, host.is_degraded, wants_drain, host.why_away),
        )
        kept = self._views.get(host.index)
        if kept is not None and kept[0] == key:
            return kept[1]
        view = _new_view(host)
        self._views[host.index] = (key, view)
        return view


_PLACES: Final = {
    Power.OFF: (Lifecycle.STANDBY, Phase.OUTSIDE),
    Power.BOOTING: (Lifecycle.JOINING, Phase.JOINING),
    Power.UP: (Lifecycle.SERVING, Phase.MEMBER),
    Power.AWAY: (Lifecycle.QUARANTINED, Phase.OUTSIDE),
}


def _new_view(host: Host) -> NodeView:
    lifecycle, phase = _PLACES[host.power]
    is_sick = host.sick_gpu or host.power is Power.AWAY
    if host.draining:
        lifecycle, phase = Lifecycle.DRAINING, Phase.DRAINING
    hold = Hold(
        id=HoldId("h-replay"), owner=holds.HEALTH, kind=HoldKind.EVICT, reason="a GPU is lost", since=0.0
    )
    is_gone = host.why_away == "host"
    severity = Severity.DEGRADED if host.is_degraded else Severity.OK
    return NodeView(
        name=host.name,
        pool=host.pool,
        lifecycle=Lifecycle.LOST if is_gone else lifecycle,
        reason=host.why_away or "as simulated",
        serve=host.asked,
        known=True,
        phase=phase,
        age_s=_SILENT_S if is_gone else 1.0,
        online=not is_gone,
        severity=Severity.CRITICAL if is_sick else severity,
        action=Action.EVICT if is_sick else Action.NONE,
        verdict="a GPU is lost" if is_sick else "",
        holds=(hold,) if host.draining or host.power is Power.AWAY else (),
        wants_drain="a GPU is lost" if host.sick_gpu and host.takes_work else "",
        gpus_declared=host.gpus,
        gpus_counted=host.gpus,
        gpus_usable=host.usable - (1 if is_sick else 0),
        witness=Witness(ray_workers=len(host.running), foreign_gpu_processes=0),
        ray=_ray_node(host) if host.power is Power.UP else None,
    )


def _ray_node(host: Host) -> RayNode:
    status = RayStatus.RUNNING if host.running else RayStatus.IDLE
    return RayNode(
        id=RayNodeId(host.name),
        name=host.name,
        status=RayStatus.DRAINING if host.draining else status,
        total={"GPU": float(host.usable)},
        available={"GPU": float(host.free)},
    )
