"""The story that the demo must see, as data: steps, what each waits for, and how it is recognised. Pure.

Each predicate looks at Ray's own state; what the autoscaler says only supplies the reason.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpuherd.health import Action
from gpuherd.names import NodeName, RayNodeId
from gpuherd.ray import RayStatus
from gpuherd_sim.demo.observation import Observation, used_gpus


class Cue(enum.StrEnum):
    """What the demo itself does once a step has been seen."""

    SUBMIT = "submit"
    BREAK_GPU = "break_gpu"
    ENOUGH = "enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who plays: the nodes in standby, their GPUs each, and how many stay at the end."""

    nodes: tuple[NodeName, ...]
    gpus_each: int
    stay: int


@dataclass(slots=True)
class Scene:
    """What has been seen so far, beyond single looks."""

    cast: Cast
    joined: dict[RayNodeId, NodeName] = field(default_factory=dict)
    """Every raylet of ours that Ray has listed alive, in order."""
    left: dict[RayNodeId, NodeName] = field(default_factory=dict)
    sick: RayNodeId | None = None
    """The raylet on whose host a GPU was broken, chosen when both nodes worked."""
    broken_at_s: float | None = None
    drained_at_s: float | None = None
    given_at_drain: int = 0
    """GPUs of the sick node that Ray had given out when it drained, to tasks that were still starting."""

    @property
    def sick_name(self) -> NodeName | None:
        """Return the name of the node with the broken GPU."""
        return self.joined[self.sick] if self.sick else None

    @property
    def replacement(self) -> tuple[RayNodeId, NodeName] | None:
        """Return the first node that joined under a name beyond the first two."""
        names = list(dict.fromkeys(self.joined.values()))
        if len(names) < 3:  # noqa: PLR2004 (two are wanted, so the third replaces)
            return None
        return next((i, n) for i, n in self.joined.items() if n == names[2])

    def take_in(self, seen: Observation) -> None:
        """Note who is there and who has gone."""
        for node in seen.gpu_nodes:
            if node.name in self.cast.nodes and node.id not in self.joined:
                self.joined[node.id] = node.name
        if seen.sight is None:
            return
        for node_id, name in self.joined.items():
            listed = seen.ray_node(node_id)
            if node_id not in self.left and (listed is None or not listed.is_alive):
                self.left[node_id] = name


See = Callable[[Scene, Observation], str | None]
"""Return the reason once the step is seen, None before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. It is looked for once every step in ``after`` has been seen."""

    name: str
    see: See
    after: tuple[str, ...] = ()
    cue: Cue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step that was seen, why it happened, and what to do next."""

    step: str
    at_s: float
    reason: str
    cue: Cue | None = None


def _head_is_up(_scene: Scene, seen: Observation) -> str | None:
    if seen.sight is None or not any(n.is_alive for n in seen.sight.nodes) or seen.gpu_nodes:
        return None
    return f"session {seen.sight.session}, no GPU in the cluster"


def _all_stand_by(scene: Scene, seen: Observation) -> str | None:
    nodes = [seen.nodes.get(name) for name in scene.cast.nodes]
    ready = [n for n in nodes if n and n.agent_online and n.gpus_counted == scene.cast.gpus_each]
    if len(ready) < len(nodes) or seen.sight is None or seen.gpu_nodes:
        return None
    return f"{len(ready)} agents see {scene.cast.gpus_each} GPUs each; none is in Ray, as nothing is queued"


def _work_is_queued(_scene: Scene, seen: Observation) -> str | None:
    if not seen.pending_gpus:
        return None
    return f"Ray holds {seen.pending_gpus} requests for a GPU and has none"


def _has_joined(count: int) -> See:
    def see(scene: Scene, seen: Observation) -> str | None:
        if len(scene.joined) < count:
            return None
        name = list(scene.joined.values())[count - 1]
        return f"{name}: {seen.why(name)}"

    return see


def _both_work(scene: Scene, seen: Observation) -> str | None:
    busy = [n for n in seen.gpu_nodes if n.id in scene.joined and used_gpus(n)]
    if len(busy) < 2:  # noqa: PLR2004 (the story wants two at work)
        return None
    scene.sick = max(busy, key=lambda n: (used_gpus(n), n.name or "")).id
    return ", ".join(f"{used_gpus(n)} GPUs of {scene.joined[n.id]}" for n in busy) + " are given to tasks"


def _fault_is_found(scene: Scene, seen: Observation) -> str | None:
    node = seen.nodes.get(scene.sick_name) if scene.sick_name else None
    grave = [f for f in node.findings if f.action >= Action.DRAIN] if node else []
    return f"{scene.sick_name}: {grave[0].reason}" if grave else None


def _gets_no_new_work(scene: Scene, seen: Observation) -> str | None:
    listed = seen.ray_node(scene.sick) if scene.sick else None
    if listed is None or listed.status not in (RayStatus.DRAINING, RayStatus.DEAD):
        return None
    scene.drained_at_s = seen.at_s
    begun = sum(start.node == scene.sick for start in seen.work.starts)
    scene.given_at_drain = max(0, used_gpus(listed) - begun)
    return f"Ray lists {scene.sick_name} as {listed.status.value} and places nothing on it"


def _is_replaced(scene: Scene, seen: Observation) -> str | None:
    if scene.replacement is None:
        return None
    name = scene.replacement[1]
    return f"{name} joined in place of {scene.sick_name}: {seen.why(name)}"


def _sick_has_left(scene: Scene, _seen: Observation) -> str | None:
    if scene.sick not in scene.left:
        return None
    return f"Ray lists {scene.sick_name} as dead: its raylet ended once its work had"


def _replacement_works(scene: Scene, seen: Observation) -> str | None:
    if scene.replacement is None:
        return None
    node_id, name = scene.replacement
    count = sum(start.node == node_id for start in seen.work.starts)
    return f"{count} tasks have started on {name}" if count else None


def _queue_is_empty(_scene: Scene, seen: Observation) -> str | None:
    work = seen.work
    if not work.has_ended or work.finished != work.submitted or work.failed or seen.sight is None:
        return None
    if seen.pending_gpus:
        return None
    return f"{work.finished} of {work.submitted} tasks finished, none failed; Ray holds no request"


def _sick_got_nothing(scene: Scene, seen: Observation) -> str | None:
    drained_at_s = scene.drained_at_s
    late = [s for s in seen.work.starts if s.node == scene.sick and s.at_s > (drained_at_s or 0)]
    later = [s for s in seen.work.starts if s.at_s > (drained_at_s or 0)]
    if drained_at_s is None or len(late) > scene.given_at_drain or len(later) == len(late):
        return None
    given = f"; {len(late)} more had its GPUs before" if late else ""
    return f"{len(later) - len(late)} tasks started after the drain, all of them elsewhere{given}"


def _is_down_to_min(scene: Scene, seen: Observation) -> str | None:
    alive = seen.gpu_nodes
    if seen.sight is None or len(alive) != scene.cast.stay or any(n.name is None for n in alive):
        return None
    return f"{len(alive)} nodes in Ray, min = {scene.cast.stay}; left: {', '.join(scene.left.values())}"


STORY: Final[tuple[Step, ...]] = (
    Step(name="head is up", see=_head_is_up),
    Step(name="agents stand by", see=_all_stand_by, after=("head is up",), cue=Cue.SUBMIT),
    Step(name="work is queued", see=_work_is_queued, after=("agents stand by",)),
    Step(name="first node joins", see=_has_joined(1), after=("work is queued",)),
    Step(name="second node joins", see=_has_joined(2), after=("first node joins",)),
    Step(name="tasks run on both", see=_both_work, after=("second node joins",), cue=Cue.BREAK_GPU),
    Step(name="lost GPU is found", see=_fault_is_found, after=("tasks run on both",)),
    Step(name="sick node gets no new work", see=_gets_no_new_work, after=("tasks run on both",)),
    Step(name="another node replaces it", see=_is_replaced, after=("sick node gets no new work",)),
    Step(name="sick node leaves", see=_sick_has_left, after=("sick node gets no new work",)),
    Step(
        name="replacement works",
        see=_replacement_works,
        after=("another node replaces it", "sick node leaves"),
        cue=Cue.ENOUGH,
    ),
    Step(name="queue is empty", see=_queue_is_empty, after=("replacement works",)),
    Step(name="sick node got nothing since", see=_sick_got_nothing, after=("queue is empty",)),
    Step(name="idle nodes drain down to min", see=_is_down_to_min, after=("queue is empty",)),
)
"""Every step, in order; those that wait for the same step may be seen in any order."""


@dataclass(slots=True)
class Story:
    """Feed it observations; it tells which steps they show."""

    scene: Scene
    steps: tuple[Step, ...] = STORY
    told: list[Seen] = field(default_factory=list)

    def see(self, seen: Observation) -> tuple[Seen, ...]:
        """Return the steps that this look shows for the first time."""
        self.scene.take_in(seen)
        fresh: list[Seen] = []
        for step in self.open_steps:
            if not set(step.after) <= {s.step for s in self.told}:
                continue
            reason = step.see(self.scene, seen)
            if reason is not None:
                fresh.append(Seen(step=step.name, at_s=seen.at_s, reason=reason, cue=step.cue))
                self.told.append(fresh[-1])
        return tuple(fresh)

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """Return the steps that have not been seen yet."""
        names = {s.step for s in self.told}
        return tuple(step for step in self.steps if step.name not in names)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Return the names of the steps that are looked for now."""
        names = {s.step for s in self.told}
        return tuple(step.name for step in self.open_steps if set(step.after) <= names)

    @property
    def fault_to_no_new_work_s(self) -> float | None:
        """Return the seconds from the broken GPU to Ray's word that the node takes no work."""
        if self.scene.broken_at_s is None or self.scene.drained_at_s is None:
            return None
        return self.scene.drained_at_s - self.scene.broken_at_s
