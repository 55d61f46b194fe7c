from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATUS_UNSPECIFIED: _ClassVar[NodeStatus]
    NODE_STATUS_RUNNING: _ClassVar[NodeStatus]
    NODE_STATUS_DEAD: _ClassVar[NodeStatus]
    NODE_STATUS_IDLE: _ClassVar[NodeStatus]
    NODE_STATUS_DRAINING: _ClassVar[NodeStatus]

class DrainNodeReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAIN_NODE_REASON_UNSPECIFIED: _ClassVar[DrainNodeReason]
    DRAIN_NODE_REASON_IDLE_TERMINATION: _ClassVar[DrainNodeReason]
    DRAIN_NODE_REASON_PREEMPTION: _ClassVar[DrainNodeReason]
NODE_STATUS_UNSPECIFIED: NodeStatus
NODE_STATUS_RUNNING: NodeStatus
NODE_STATUS_DEAD: NodeStatus
NODE_STATUS_IDLE: NodeStatus
NODE_STATUS_DRAINING: NodeStatus
DRAIN_NODE_REASON_UNSPECIFIED: DrainNodeReason
DRAIN_NODE_REASON_IDLE_TERMINATION: DrainNodeReason
DRAIN_NODE_REASON_PREEMPTION: DrainNodeReason

class NodeState(_message.Message):
    __slots__ = ("node_id", "instance_id", "node_type", "available_resources", "total_resources", "status", "idle_duration_ms", "node_ip_address", "node_activity", "labels")
    class AvailableResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class TotalResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_TYPE_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    IDLE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    NODE_IP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    NODE_ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    node_id: bytes
    instance_id: str
    node_type: str
    available_resources: _containers.ScalarMap[str, float]
    total_resources: _containers.ScalarMap[str, float]
    status: NodeStatus
    idle_duration_ms: int
    node_ip_address: str
    node_activity: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, node_id: _Optional[bytes] = ..., instance_id: _Optional[str] = ..., node_type: _Optional[str] = ..., available_resources: _Optional[_Mapping[str, float]] = ..., total_resources: _Optional[_Mapping[str, float]] = ..., status: _Optional[_Union[NodeStatus, str]] = ..., idle_duration_ms: _Optional[int] = ..., node_ip_address: _Optional[str] = ..., node_activity: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("resources_bundle",)
    class ResourcesBundleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RESOURCES_BUNDLE_FIELD_NUMBER: _ClassVar[int]
    resources_bundle: _containers.ScalarMap[str, float]
    def __init__(self, resources_bundle: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ResourceRequestByCount(_message.Message):
    __slots__ = ("request", "count")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    request: ResourceRequest
    count: int
    def __init__(self, request: _Optional[_Union[ResourceRequest, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class BundleSelector(_message.Message):
    __slots__ = ("resource_requests",)
    RESOURCE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    resource_requests: _containers.RepeatedCompositeFieldContainer[ResourceRequest]
    def __init__(self, resource_requests: _Optional[_Iterable[_Union[ResourceRequest, _Mapping]]] = ...) -> None: ...

class GangResourceRequest(_message.Message):
    __slots__ = ("requests", "details", "bundle_selectors")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SELECTORS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ResourceRequest]
    details: str
    bundle_selectors: _containers.RepeatedCompositeFieldContainer[BundleSelector]
    def __init__(self, requests: _Optional[_Iterable[_Union[ResourceRequest, _Mapping]]] = ..., details: _Optional[str] = ..., bundle_selectors: _Optional[_Iterable[_Union[BundleSelector, _Mapping]]] = ...) -> None: ...

class ClusterResourceConstraint(_message.Message):
    __slots__ = ("resource_requests",)
    RESOURCE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    resource_requests: _containers.RepeatedCompositeFieldContainer[ResourceRequestByCount]
    def __init__(self, resource_requests: _Optional[_Iterable[_Union[ResourceRequestByCount, _Mapping]]] = ...) -> None: ...

class ClusterResourceState(_message.Message):
    __slots__ = ("version", "node_states", "pending_resource_requests", "pending_gang_resource_requests", "cluster_resource_constraints", "cluster_session_name")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_STATES_FIELD_NUMBER: _ClassVar[int]
    PENDING_RESOURCE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    PENDING_GANG_RESOURCE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_RESOURCE_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_SESSION_NAME_FIELD_NUMBER: _ClassVar[int]
    version: int
    node_states: _containers.RepeatedCompositeFieldContainer[NodeState]
    pending_resource_requests: _containers.RepeatedCompositeFieldContainer[ResourceRequestByCount]
    pending_gang_resource_requests: _containers.RepeatedCompositeFieldContainer[GangResourceRequest]
    cluster_resource_constraints: _containers.RepeatedCompositeFieldContainer[ClusterResourceConstraint]
    cluster_session_name: str
    def __init__(self, version: _Optional[int] = ..., node_states: _Optional[_Iterable[_Union[NodeState, _Mapping]]] = ..., pending_resource_requests: _Optional[_Iterable[_Union[ResourceRequestByCount, _Mapping]]] = ..., pending_gang_resource_requests: _Optional[_Iterable[_Union[GangResourceRequest, _Mapping]]] = ..., cluster_resource_constraints: _Optional[_Iterable[_Union[ClusterResourceConstraint, _Mapping]]] = ..., cluster_session_name: _Optional[str] = ...) -> None: ...

class GetClusterResourceStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterResourceStateReply(_message.Message):
    __slots__ = ("cluster_resource_state",)
    CLUSTER_RESOURCE_STATE_FIELD_NUMBER: _ClassVar[int]
    cluster_resource_state: ClusterResourceState
    def __init__(self, cluster_resource_state: _Optional[_Union[ClusterResourceState, _Mapping]] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "reason", "reason_message", "deadline_timestamp_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: bytes
    reason: DrainNodeReason
    reason_message: str
    deadline_timestamp_ms: int
    def __init__(self, node_id: _Optional[bytes] = ..., reason: _Optional[_Union[DrainNodeReason, str]] = ..., reason_message: _Optional[str] = ..., deadline_timestamp_ms: _Optional[int] = ...) -> None: ...

class DrainNodeReply(_message.Message):
    __slots__ = ("is_accepted", "rejection_reason_message")
    IS_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REJECTION_REASON_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    is_accepted: bool
    rejection_reason_message: str
    def __init__(self, is_accepted: _Optional[bool] = ..., rejection_reason_message: _Optional[str] = ...) -> None: ...

class GcsStatus(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class CheckAliveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckAliveReply(_message.Message):
    __slots__ = ("status", "ray_version")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RAY_VERSION_FIELD_NUMBER: _ClassVar[int]
    status: GcsStatus
    ray_version: str
    def __init__(self, status: _Optional[_Union[GcsStatus, _Mapping]] = ..., ray_version: _Optional[str] = ...) -> None: ...

class InternalKVPutRequest(_message.Message):
    __slots__ = ("key", "value", "overwrite", "namespace")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    overwrite: bool
    namespace: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., overwrite: _Optional[bool] = ..., namespace: _Optional[bytes] = ...) -> None: ...

class InternalKVPutReply(_message.Message):
    __slots__ = ("status", "added")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    status: GcsStatus
    added: bool
    def __init__(self, status: _Optional[_Union[GcsStatus, _Mapping]] = ..., added: _Optional[bool] = ...) -> None: ...

class InternalKVGetRequest(_message.Message):
    __slots__ = ("key", "namespace")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    namespace: bytes
    def __init__(self, key: _Optional[bytes] = ..., namespace: _Optional[bytes] = ...) -> None: ...

class InternalKVGetReply(_message.Message):
    __slots__ = ("status", "value")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    status: GcsStatus
    value: bytes
    def __init__(self, status: _Optional[_Union[GcsStatus, _Mapping]] = ..., value: _Optional[bytes] = ...) -> None: ...

class InternalKVKeysRequest(_message.Message):
    __slots__ = ("prefix", "namespace")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    prefix: bytes
    namespace: bytes
    def __init__(self, prefix: _Optional[bytes] = ..., namespace: _Optional[bytes] = ...) -> None: ...

class InternalKVKeysReply(_message.Message):
    __slots__ = ("status", "results")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    status: GcsStatus
    results: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, status: _Optional[_Union[GcsStatus, _Mapping]] = ..., results: _Optional[_Iterable[bytes]] = ...) -> None: ...

class InternalKVDelRequest(_message.Message):
    __slots__ = ("key", "namespace", "del_by_prefix")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEL_BY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    namespace: bytes
    del_by_prefix: bool
    def __init__(self, key: _Optional[bytes] = ..., namespace: _Optional[bytes] = ..., del_by_prefix: _Optional[bool] = ...) -> None: ...

class InternalKVDelReply(_message.Message):
    __slots__ = ("status", "deleted_num")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DELETED_NUM_FIELD_NUMBER: _ClassVar[int]
    status: GcsStatus
    deleted_num: int
    def __init__(self, status: _Optional[_Union[GcsStatus, _Mapping]] = ..., deleted_num: _Optional[int] = ...) -> None: ...
