"""What the demo sees in one look: Ray's state, the autoscaler's, and its own tasks. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuherd.names import NodeName, RayNodeId
from gpuherd.ray import ClusterSight, RayNode
from gpuherd.rest import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStart:
    """A task has begun to run on a node, at monotonic seconds."""

    task: int
    node: RayNodeId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The tasks so far. ``has_ended`` = the driver submits no more and all have come back."""

    submitted: int = 0
    finished: int = 0
    failed: int = 0
    starts: tuple[TaskStart, ...] = ()
    has_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at everything, at monotonic seconds. ``sight`` is None while Ray's head does not answer."""

    at_s: float
    sight: ClusterSight | None = None
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    @property
    def gpu_nodes(self) -> tuple[RayNode, ...]:
        """Return Ray's living nodes that offer GPUs: the herd, without the head."""
        listed = self.sight.nodes if self.sight else ()
        return tuple(n for n in listed if n.is_alive and n.total.get("GPU", 0) > 0)

    @property
    def pending_gpus(self) -> int:
        """Return how many requests for a GPU are queued in Ray."""
        shapes = self.sight.pending if self.sight else ()
        return sum(s.count for s in shapes if dict(s.resources).get("GPU", 0) > 0)

    def ray_node(self, node_id: RayNodeId) -> RayNode | None:
        """Return the node as Ray lists it, dead ones included."""
        listed = self.sight.nodes if self.sight else ()
        return next((n for n in listed if n.id == node_id), None)

    def why(self, name: NodeName) -> str:
        """Return the autoscaler's reason for the state of a node."""
        node = self.nodes.get(name)
        return node.reason if node else ""


def used_gpus(node: RayNode) -> int:
    """Return how many of a node's GPUs Ray has given to work."""
    return round(node.total.get("GPU", 0) - node.available.get("GPU", 0))
