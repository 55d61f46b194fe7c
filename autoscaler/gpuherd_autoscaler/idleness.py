"""Whether a node is idle at this instant, by every witness; what is not known is not idle. Pure."""

from gpuherd.phases import Phase
from gpuherd.ray import RayStatus
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.snapshot import NodeView


def doubt(node: NodeView, *, head_is_fresh: bool, limits: Limits) -> str | None:
    """Return why the node is not proven idle, or None when Ray and the node itself both say that it is.

    A node outside Ray is proven by its own word alone. Ray's zero-CPU actors show as its processes
    (ray#46172), which is why Ray's own idle state is not enough.
    """
    if not head_is_fresh:
        return "Ray's head tells nothing of the present"
    if node.is_in_ray and node.ray is not None and node.ray.status is not RayStatus.IDLE:
        return f"Ray says {node.ray.status}"
    if not node.is_in_ray and node.phase is not Phase.OUTSIDE:
        return f"is {node.phase or 'of unknown phase'}"
    if node.age_s is None or node.age_s > limits.witness_fresh_s:
        return f"its own word is older than {limits.witness_fresh_s:g} s"
    workers, foreign = node.witness.ray_workers, node.witness.foreign_gpu_processes
    if workers is None or foreign is None:
        return "it does not say whether work runs there"
    if workers > 0:
        return f"it sees {workers} Ray workers"
    return f"it sees {foreign} foreign GPU processes" if foreign > 0 else None
