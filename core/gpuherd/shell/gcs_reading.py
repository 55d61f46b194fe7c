"""Ray's messages turned into our values: pure, and tolerant of what a newer Ray may say.

Does not speak to anyone; ``gcs`` does.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from gpuherd.errors import HeadFault
from gpuherd.names import NameInvalid, NodeName, RayNodeId, parse_node
from gpuherd.ray import ClusterSight, Gang, RayNode, RayStatus, Shape, Strategy
from gpuherd.shell import gcs_pb2 as pb

_SIGNS: Final = (
    ("DNS resolution failed", HeadFault.UNRESOLVED),
    ("Domain name not found", HeadFault.UNRESOLVED),
    ("Connection refused", HeadFault.REFUSED),
    ("Failed parsing HTTP/2", HeadFault.FOREIGN),
    ("http2 header with status", HeadFault.FOREIGN),
    ("timed out", HeadFault.SILENT),
    ("No route to host", HeadFault.SILENT),
)

_STATUS: Final = tuple(RayStatus)


def fault_of(code: str, words: str) -> HeadFault:
    """Return what gRPC's status and words (1.71 to 1.76) say of the way to the head."""
    if code == "DEADLINE_EXCEEDED":
        return HeadFault.SILENT
    if code == "UNIMPLEMENTED":
        return HeadFault.FOREIGN
    return next((fault for sign, fault in _SIGNS if sign in words), HeadFault.OTHER)


def read_node(state: pb.NodeState) -> RayNode:
    """Return one node; a status that this version does not know reads as UNSPECIFIED."""
    return RayNode(
        id=RayNodeId(state.node_id.hex()),
        name=_own_name(state.instance_id),
        status=_STATUS[state.status] if 0 <= state.status < len(_STATUS) else RayStatus.UNSPECIFIED,
        total=dict(state.total_resources),
        available=dict(state.available_resources),
        idle_s=state.idle_duration_ms / 1000,
        activity=tuple(state.node_activity),
        labels=dict(state.labels),
    )


def read_sight(state: pb.ClusterResourceState, request: bytes | None) -> ClusterSight:
    """Return the whole cluster; ``request`` is the value that ``request_resources()`` left in the store."""
    asked = (by_count for c in state.cluster_resource_constraints for by_count in c.resource_requests)
    return ClusterSight(
        session=state.cluster_session_name,
        nodes=tuple(read_node(node) for node in state.node_states),
        pending=_counted(state.pending_resource_requests),
        gangs=tuple(_gang(gang) for gang in state.pending_gang_resource_requests),
        requested=merge([*_counted(asked), *read_request(request)]),
    )


def read_request(value: bytes | None) -> tuple[Shape, ...]:
    """Return the bundles in Ray's own JSON, ``[{"GPU": 1}, …]``.

    Any process of the cluster can write there, so a value that is no such list asks for nothing, and a
    bundle that is none is left out.
    """
    try:
        bundles = json.loads(value or b"[]")
    except (ValueError, RecursionError):
        return ()
    if not isinstance(bundles, list):
        return ()
    return merge(_shape(bundle) for bundle in bundles if _is_bundle(bundle))


def merge(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Return every shape once with the sum of its counts, in order of first appearance."""
    counts: dict[tuple[tuple[str, float], ...], int] = {}
    for shape in shapes:
        counts[shape.resources] = counts.get(shape.resources, 0) + shape.count
    return tuple(Shape(resources=resources, count=count) for resources, count in counts.items())


def _own_name(instance: str) -> NodeName | None:
    try:
        return parse_node(instance)
    except NameInvalid:
        return None


def _gang(gang: pb.GangResourceRequest) -> Gang:
    first = gang.bundle_selectors[0].resource_requests if gang.bundle_selectors else gang.requests
    return Gang(
        shapes=merge(_shape(bundle.resources_bundle) for bundle in first),
        details=gang.details,
        strategy=read_strategy(gang.details),
    )


def read_strategy(details: str) -> Strategy:
    """Return the strategy in ``<placement group>:<strategy>|<state>``; PACK, Ray's own default, if none."""
    word = details.rpartition(":")[2].partition("|")[0]
    return next((strategy for strategy in Strategy if strategy == word), Strategy.PACK)


def _counted(requests: Iterable[pb.ResourceRequestByCount]) -> tuple[Shape, ...]:
    return merge(_shape(r.request.resources_bundle, r.count) for r in requests if r.count > 0)


def _shape(bundle: Mapping[str, float], count: int = 1) -> Shape:
    return Shape(resources=tuple(sorted((k, float(v)) for k, v in bundle.items())), count=count)


def _is_bundle(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < float("inf")
        for amount in value.values()
    )
