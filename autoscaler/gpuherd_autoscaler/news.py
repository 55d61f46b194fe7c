"""What changed in the fleet from one decision to the next, as notes for the event stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuherd.names import NodeName
from gpuherd_autoscaler.ledger import Note
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.snapshot import NodeView, Snapshot

Face = tuple[str, str, str, tuple[str, ...]]


@dataclass(slots=True)
class News:
    """Remembers the last picture; the first one makes no news, since nothing is known to have changed."""

    _faces: dict[NodeName, Face] | None = None
    _frozen: str = ""
    _uninvited: frozenset[NodeName] = field(default_factory=frozenset)

    def notes(self, snapshot: Snapshot, plan: Plan, wall: float) -> tuple[Note, ...]:
        """Return a note for each node that changed and for the start and end of a freeze."""
        before, self._faces = self._faces, {n: _face(v) for n, v in snapshot.nodes.items()}
        found = [] if before is None else list(_changes(before, snapshot, wall))
        found += self._of_scaler(plan, wall)
        found += [
            Note(at=wall, kind="node.uninvited", reason="speaks and is in no pool", node=name)
            for name in snapshot.uninvited
            if name not in self._uninvited
        ]
        self._uninvited = frozenset(snapshot.uninvited)
        return tuple(found)

    def _of_scaler(self, plan: Plan, wall: float) -> Iterator[Note]:
        was, self._frozen = self._frozen, plan.frozen
        if plan.frozen and not was:
            yield Note(at=wall, kind="scaler.frozen", reason=plan.frozen)
        if was and not plan.frozen:
            yield Note(at=wall, kind="scaler.thawed", reason=f"was frozen: {was}")


def _changes(before: dict[NodeName, Face], snapshot: Snapshot, wall: float) -> Iterator[Note]:
    for name, view in snapshot.nodes.items():
        was, now = before.get(name), _face(view)
        if was is None or was == now:
            continue
        if was[0] != now[0]:
            yield Note(at=wall, kind=f"node.{view.lifecycle}", reason=view.reason, node=name)
        if was[1] != now[1]:
            yield Note(at=wall, kind=f"health.{view.severity}", reason=view.verdict, node=name)
        if was[2] != now[2]:
            reason = "; ".join(f"{h.owner}: {h.reason}" for h in view.holds) or "no hold stands"
            yield Note(at=wall, kind="node.held" if view.holds else "node.free", reason=reason, node=name)
        if was[3] != now[3] and view.latecomers:
            reason = f"came after Ray took the drain: {', '.join(view.latecomers)}"
            yield Note(at=wall, kind="drain.breached", reason=reason, node=name)


def _face(view: NodeView) -> Face:
    held = ",".join(sorted(h.id for h in view.holds))
    return view.lifecycle.value, view.severity.value, held, view.latecomers
