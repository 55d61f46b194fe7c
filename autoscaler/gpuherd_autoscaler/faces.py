"""How the fleet looks through the API: bodies made of the last decision, the ledger and documents. Pure."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from gpuherd import __version__, rest
from gpuherd.health import Severity
from gpuherd.names import NodeName
from gpuherd.phases import Lifecycle
from gpuherd.ray import RayStatus
from gpuherd.wire.documents import Gpu, State
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import Event, Operation
from gpuherd_autoscaler.loop import Decided
from gpuherd_autoscaler.snapshot import Freshness, NodeView
from gpuherd_autoscaler.summary import summary
from gpuherd_autoscaler.wishes import Wish, Wishes, standing

_ACTIVITY_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a picture of the fleet is made of; ``decided`` is None before the first decision."""

    book: Book
    decided: Decided | None
    broker_connected: bool
    lead: str = ""

    def nodes(self) -> tuple[rest.Node, ...]:
        """Return every listed node, by name."""
        return tuple(self.node(name) for name in sorted(self.book.herd.names))

    def node(self, name: NodeName) -> rest.Node:
        """Return one node; raises NotFound for one of no pool."""
        frame = self.book.herd.frame(name, self.book.ledger.term)
        view = self.decided.snapshot.nodes.get(name) if self.decided else None
        if view is None:
            view = NodeView(
                name=name, pool=frame.pool, lifecycle=Lifecycle.MISSING, reason="not looked at yet"
            )
        return self._node(view, self.book.state(name))

    def _node(self, view: NodeView, state: State | None) -> rest.Node:
        online = self.book.inventory.online(view.name)
        return rest.Node(
            name=view.name,
            pool=view.pool,
            lifecycle=view.lifecycle,
            reason=self._reason(view),
            phase=view.phase,
            severity=view.severity if state else Severity.UNKNOWN,
            serve=view.serve,
            gpus_declared=view.gpus_declared,
            gpus_counted=view.gpus_counted,
            gpus_healthy=view.gpus_usable or 0,
            ray_status=view.ray.status.value if view.ray else "",
            ray_node_id=view.ray.id if view.ray else view.ray_node_id,
            holds=self.book.standing(view.name),
            findings=state.verdict.findings if state else (),
            wants_drain=view.wants_drain,
            obstacles=state.obstacles if state else (),
            blockers=state.blockers if state else (),
            latecomers=state.latecomers if state else (),
            state_age_s=view.age_s,
            agent_online=online.online if online else None,
            idle_s=view.ray.idle_s if view.ray and view.ray.status is RayStatus.IDLE else None,
            versions=_versions(state),
        )

    def _reason(self, view: NodeView) -> str:
        plan = self.decided.plan if self.decided else None
        asked = plan.reasons.get(view.name) or plan.kept.get(view.name) if plan else ""
        return "; ".join(dict.fromkeys(text for text in (view.reason, asked) if text))

    def gpus(self, name: NodeName) -> tuple[rest.Gpu, ...]:
        """Return every GPU that a node told of; raises NotFound for a node of no pool."""
        self.book.herd.frame(name, self.book.ledger.term)
        state = self.book.state(name)
        return tuple(_gpu(name, gpu) for gpu in state.gpus) if state else ()

    def all_gpus(self) -> tuple[rest.Gpu, ...]:
        """Return every GPU of every listed node, by name."""
        return tuple(gpu for name in sorted(self.book.herd.names) for gpu in self.gpus(name))

    def fleet(self) -> rest.Fleet:
        """Return one screen of facts."""
        nodes = self.nodes()
        sight = self.decided.snapshot.cluster if self.decided else None
        plan = self.decided.plan if self.decided else None
        serving = [n for n in nodes if n.lifecycle is Lifecycle.SERVING]
        return rest.Fleet(
            cluster=self.book.herd.cluster,
            mode=self.book.mode.value,
            term=self.book.ledger.term,
            nodes=len(nodes),
            by_lifecycle=dict(sorted(Counter(n.lifecycle.value for n in nodes).items())),
            gpus_declared=sum(n.gpus_declared for n in nodes),
            gpus_counted=sum(n.gpus_counted or 0 for n in nodes),
            gpus_healthy=sum(n.gpus_healthy for n in nodes),
            gpus_serving=sum(n.gpus_healthy for n in serving),
            demand=tuple(rest.Demand(resources=dict(s.resources), count=s.count) for s in plan.demand)
            if plan
            else (),
            head_reachable=sight.freshness is Freshness.FRESH if sight else None,
            head_session=sight.value.session if sight and sight.value else "",
            broker_connected=self.broker_connected,
            frozen=plan.frozen if plan else "",
            wishes=wishes_body(standing(self.book.ledger.wishes, self.book.clock.wall())),
            lead=self.lead,
            decision=summary(plan) if plan else "",
            decided_at=self.decided.wall if self.decided else None,
            version=__version__,
        )

    def preview(
        self, name: NodeName, reason: str, for_s: float | None, on_deadline: str
    ) -> rest.DrainPreview:
        """Return what a drain of the node would do now."""
        node = self.node(name)
        view = self.decided.snapshot.nodes.get(name) if self.decided else None
        activity = view.ray.activity[:_ACTIVITY_SHOWN] if view and view.ray else ()
        return rest.DrainPreview(
            node=node,
            ray_activity=activity,
            effects=tuple(_effects(node, view, for_s, on_deadline, reason)),
        )


def _gpu(node: NodeName, gpu: Gpu) -> rest.Gpu:
    return rest.Gpu(
        node=node,
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        pci_bus_id=gpu.pci_bus_id,
        present=gpu.present,
        healthy=gpu.healthy,
        severity=gpu.severity,
        action=gpu.action,
        reason=gpu.reason,
    )


def _effects(
    node: rest.Node, view: NodeView | None, for_s: float | None, on_deadline: str, reason: str
) -> list[str]:
    effects = [f"hold: {reason}"]
    if view is None or not view.is_in_ray:
        return [*effects, "the node is not in Ray: it stays outside until undrained"]
    effects.append("Ray gives the node no new work; it leaves when its work has ended")
    if view.witness.ray_workers:
        effects.append(f"{view.witness.ray_workers} Ray worker processes run there now")
    if for_s is not None:
        then = "what still runs is stopped" if on_deadline == "stop" else "it goes on waiting and says so"
        effects.append(f"after {for_s:.0f} s {then}")
    if node.gpus_healthy:
        effects.append(
            f"{node.gpus_healthy} GPUs are out of service until undrained; a rejoin takes about 12 s"
        )
    return effects


def _versions(state: State | None) -> dict[str, str]:
    if state is None:
        return {}
    seen = state.versions
    every = {"agent": seen.agent, "ray": seen.ray, "python": seen.python, "driver": seen.driver}
    return {k: v for k, v in every.items() if v}


def operation_body(operation: Operation) -> rest.Operation:
    """Return an operation as the API shows it."""
    return rest.Operation(
        id=operation.id,
        kind=operation.kind.value,
        node=operation.node,
        by=operation.by,
        reason=operation.reason,
        state=operation.state,
        created_at=operation.created_at,
        closed_at=operation.closed_at,
        result=operation.result,
        output=operation.output,
        steps=tuple(rest.Step(at=s.at, text=s.text) for s in operation.steps),
    )


def wishes_body(wishes: Wishes) -> rest.Wishes:
    """Return what people have set as the API shows it."""
    return rest.Wishes(
        pause=_wish(wishes.pause) if wishes.pause else None,
        sizes={size.pool: _wish(size.wish, size.nodes) for size in wishes.sizes},
    )


def _wish(wish: Wish, nodes: int | None = None) -> rest.Wish:
    return rest.Wish(by=wish.by, since=wish.since, until=wish.until, reason=wish.reason, nodes=nodes)


def event_body(event: Event) -> rest.Event:
    """Return an event as the API shows it."""
    note = event.note
    return rest.Event(
        id=event.id,
        at=note.at,
        kind=note.kind,
        reason=note.reason,
        node=note.node,
        operation=note.operation,
    )
