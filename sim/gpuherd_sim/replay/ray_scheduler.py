"""Program: Ray's own ResourceDemandScheduler behind a pipe, a JSON line in and a JSON line out.

Runs in a process of its own, since it imports ray. It is Ray's real code from the installed wheel; only
its surroundings (node states, throttling of launches) are ours.
"""

import importlib
import sys
from typing import Any, Final

import msgspec

_STATE_PROTO: Final = "ray.core.generated.autoscaler_pb2"
_MANAGER_PROTO: Final = "ray.core.generated.instance_manager_pb2"
"""Generated code has no types for mypy to see."""


class Node(msgspec.Struct, kw_only=True):
    """One instance: its type, whether it is up, GPUs in all and free, and for how long it has been idle."""

    id: str
    kind: str
    is_up: bool
    gpus: int
    free: int
    idle_s: float


class Ask(msgspec.Struct, kw_only=True):
    """One round: the fleet, counts by GPUs of one request, gangs as (bundles, GPUs a bundle)."""

    nodes: list[Node]
    requests: dict[str, int]
    gangs: list[tuple[int, int]]
    max_by_kind: dict[str, int]
    min_by_kind: dict[str, int]
    gpus_by_kind: dict[str, int]
    idle_timeout_s: float


class Answer(msgspec.Struct, kw_only=True):
    """Launches by type and the ids to terminate."""

    launch: dict[str, int]
    terminate: list[str]


def main() -> int:
    """Answer until the pipe is closed."""
    from ray.autoscaler.v2.scheduler import ResourceDemandScheduler  # noqa: PLC0415  takes seconds

    scheduler = ResourceDemandScheduler(None)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin.buffer:
        answer = _answer(scheduler, msgspec.json.decode(line, type=Ask))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    return 0


def _answer(scheduler: Any, ask: Ask) -> Answer:
    reply = scheduler.schedule(_request(ask))
    launch: dict[str, int] = {}
    for each in reply.to_launch:
        launch[each.instance_type] = launch.get(each.instance_type, 0) + each.count
    return Answer(launch=launch, terminate=[each.instance_id for each in reply.to_terminate])


def _request(ask: Ask) -> Any:
    from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig  # noqa: PLC0415
    from ray.autoscaler.v2.scheduler import SchedulingRequest  # noqa: PLC0415
    from ray.autoscaler.v2.utils import ResourceRequestUtil  # noqa: PLC0415

    kinds = {
        kind: NodeTypeConfig(
            name=kind,
            min_worker_nodes=ask.min_by_kind[kind],
            max_worker_nodes=ask.max_by_kind[kind],
            resources={"GPU": gpus},
        )
        for kind, gpus in ask.gpus_by_kind.items()
    }
    single = [
        ResourceRequestUtil.make({"GPU": float(gpus)})
        for gpus, count in ask.requests.items()
        for _ in range(count)
    ]
    return SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=kinds,
        max_num_nodes=sum(ask.max_by_kind.values()),
        resource_requests=ResourceRequestUtil.group_by_count(single),
        gang_resource_requests=[_gang(bundles, gpus) for bundles, gpus in ask.gangs],
        current_instances=[_instance(node) for node in ask.nodes],
        idle_timeout_s=ask.idle_timeout_s,
    )


def _gang(bundles: int, gpus: int) -> Any:
    from ray.autoscaler.v2.utils import ResourceRequestUtil  # noqa: PLC0415

    pb2: Any = importlib.import_module(_STATE_PROTO)

    requests = [ResourceRequestUtil.make({"GPU": float(gpus)}) for _ in range(bundles)]
    gang = pb2.GangResourceRequest(requests=requests)
    gang.bundle_selectors.add().resource_requests.extend(requests)
    return gang


def _instance(node: Node) -> Any:
    from ray.autoscaler.v2.schema import AutoscalerInstance  # noqa: PLC0415

    pb2: Any = importlib.import_module(_STATE_PROTO)
    manager: Any = importlib.import_module(_MANAGER_PROTO)

    instance = manager.Instance(
        instance_id=node.id,
        status=manager.Instance.RAY_RUNNING if node.is_up else manager.Instance.ALLOCATED,
        instance_type=node.kind,
        cloud_instance_id=node.id,
        node_kind=manager.NodeKind.WORKER,
        version=1,
    )
    if not node.is_up:
        return AutoscalerInstance(ray_node=None, im_instance=instance, cloud_instance_id=node.id)
    raw = node.id.encode().ljust(28, b"0")
    instance.node_id = raw.hex()
    is_idle = node.free == node.gpus
    state = pb2.NodeState(
        node_id=raw,
        instance_id=node.id,
        ray_node_type_name=node.kind,
        status=pb2.NodeStatus.IDLE if is_idle else pb2.NodeStatus.RUNNING,
        idle_duration_ms=int(node.idle_s * 1_000) if is_idle else 0,
    )
    state.total_resources["GPU"] = node.gpus
    state.available_resources["GPU"] = node.free
    return AutoscalerInstance(ray_node=state, im_instance=instance, cloud_instance_id=node.id)


if __name__ == "__main__":
    sys.exit(main())
