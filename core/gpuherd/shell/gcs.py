"""The one door to Ray's head: its GCS by gRPC, without importing Ray.

Method paths are Ray's, equal in 2.30 to 2.60. The token goes into each call's metadata and nowhere else.
"""

import json
import time
from typing import Any, Final, Self, TypeVar

import grpc

from gpuherd import slot_claims, slots
from gpuherd.errors import HeadUnreachable, TokenRefused
from gpuherd.names import ClusterName, NodeName, PoolName, RayNodeId
from gpuherd.ray import ClusterSight, DrainAnswer, DrainOutcome, DrainReason, HeadVersions, RayNode
from gpuherd.settings import Secret
from gpuherd.shell import gcs_pb2 as pb
from gpuherd.shell.gcs_reading import fault_of, read_node, read_sight
from gpuherd.slot_claims import SlotOrder, Won

Reply = TypeVar("Reply")

_AUTOSCALER: Final = "/ray.rpc.autoscaler.AutoscalerStateService/"
_NODES: Final = "/ray.rpc.NodeInfoGcsService/"
_STORE: Final = "/ray.rpc.InternalKVGcsService/"
_NOT_FOUND: Final = 17
"""GcsStatus code of a key that does not exist."""

_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),  # the head is in the fleet's own network
    ("grpc.use_local_subchannel_pool", 1),  # a new Gcs gets a new connection, not another's back-off
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also how long a connect may take: a busy head needs some
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)
_REASON: Final = {
    DrainReason.IDLE_TERMINATION: pb.DRAIN_NODE_REASON_IDLE_TERMINATION,
    DrainReason.PREEMPTION: pb.DRAIN_NODE_REASON_PREEMPTION,
}


class Gcs:
    """A connection to the head at ``address`` (``host:port``), made at the first call and kept.

    Every call ends within ``timeout_s``. It raises HeadUnreachable when no answer came, and TokenRefused
    when the head does not take the token; whether a change was made is then unknown only for the former.
    """

    def __init__(self, address: str, *, token: Secret | None = None, timeout_s: float = 3.0) -> None:
        self._address = address
        self._metadata = (("authorization", f"Bearer {token.text}"),) if token else ()
        self._timeout_s = timeout_s
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection; a later call makes a new one."""
        if self._channel is not None:
            await self._channel.close(None)
            self._channel = None

    async def alive(self) -> str:
        """Return the head's Ray version: the cheapest question."""
        reply = await self._call(_NODES + "CheckAlive", pb.CheckAliveRequest(), pb.CheckAliveReply)
        return reply.ray_version

    async def versions(self) -> HeadVersions:
        """Return the Ray and Python that the head runs.

        Raises HeadUnreachable also while a starting head has not written them yet.
        """
        value = await self._get("CLUSTER_METADATA", b"cluster")
        try:
            said = json.loads(value or b"null")
            return HeadVersions(
                ray=str(said["ray_version"]),
                python=str(said["python_version"]),
                session=(await self._state()).cluster_session_name,
                is_open=await self._is_open(),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise HeadUnreachable(f"the head at {self._address} has not told its versions yet") from error

    async def _is_open(self) -> bool | None:
        """Say whether the head answers without our token, None without one."""
        if not self._metadata:
            return None
        async with Gcs(self._address, timeout_s=self._timeout_s) as stranger:
            try:
                await stranger.alive()
            except TokenRefused:
                return False
        return True

    async def sight(self) -> ClusterSight:
        """Return nodes and demand. A dead node stays listed, among the last 1,000."""
        state = await self._state()
        return read_sight(state, await self._get("autoscaler_resource_request", b""))

    async def node(self, node_id: RayNodeId) -> RayNode | None:
        """Return a node as the head lists it, None when it does not."""
        wanted = bytes.fromhex(node_id)
        listed = (node for node in (await self._state()).node_states if node.node_id == wanted)
        return next((read_node(node) for node in listed), None)

    async def drain(
        self,
        node_id: RayNodeId,
        reason: DrainReason,
        message: str,
        *,
        deadline_s: float | None = None,
        within: SlotOrder | None = None,
    ) -> DrainAnswer:
        """Ask Ray to drain a node that it lists as alive, after winning a slot if ``within`` is given.

        Never raises for what the head does. A slot that was won here is freed again when Ray says no, and
        kept when nothing was heard of Ray: then the drain may yet happen.
        """
        try:
            node = await self.node(node_id)
            if node is None or not node.is_alive:
                return DrainAnswer(
                    outcome=DrainOutcome.NOT_ALIVE,
                    message=f"the head lists {node_id} as {'unknown' if node is None else node.status.value}",
                )
            claimed = await slot_claims.claim(self, within) if within else None
        except HeadUnreachable as error:
            return DrainAnswer(outcome=DrainOutcome.UNREACHABLE, message=str(error))
        if isinstance(claimed, slots.Full):
            return DrainAnswer(outcome=DrainOutcome.NO_SLOT, message=_held_by(claimed))
        answer = await self._ask_drain(node_id, reason, message, deadline_s)
        if within is not None and isinstance(claimed, Won) and answer.outcome in _SLOT_UNUSED:
            return await self._free_after(answer, within)
        return answer

    async def claim_slot(
        self, cluster: ClusterName, pool: PoolName, node: NodeName, budget: int
    ) -> slots.Slot | slots.Full:
        """Return the slot that the node holds now, or who holds them all."""
        order = SlotOrder(cluster=cluster, pool=pool, node=node, budget=budget)
        claimed = await slot_claims.claim(self, order)
        return claimed if isinstance(claimed, slots.Full) else claimed.slot

    async def release_slots(self, cluster: ClusterName, pool: PoolName, node: NodeName) -> int:
        """Free the slots that a node holds and return how many."""
        return await slot_claims.release(self, cluster, pool, node)

    async def held_slots(self, cluster: ClusterName, pool: PoolName) -> dict[slots.Slot, NodeName]:
        """Return the slots of a pool that are held, and by whom."""
        return slots.held(await slot_claims.read(self, cluster, pool))

    async def kv_create(self, key: str, value: bytes) -> bool:
        """Create a key; False when it exists. Of many creators exactly one wins.

        After HeadUnreachable it may be created or not.
        """
        return await self._put(key, value, overwrite=False)

    async def kv_put(self, key: str, value: bytes) -> None:
        """Set a key, new or not."""
        await self._put(key, value, overwrite=True)

    async def kv_get(self, key: str) -> bytes | None:
        """Return a value, None when the key does not exist."""
        return await self._get(key, slots.NAMESPACE)

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        """Return all keys that start so, sorted; keys that are no text are none of ours."""
        request = pb.InternalKVKeysRequest(prefix=prefix.encode(), namespace=slots.NAMESPACE)
        reply = await self._call(_STORE + "InternalKVKeys", request, pb.InternalKVKeysReply)
        return tuple(sorted(key.decode(errors="replace") for key in reply.results))

    async def kv_del(self, key: str) -> bool:
        """Delete a key; False when it did not exist."""
        request = pb.InternalKVDelRequest(key=key.encode(), namespace=slots.NAMESPACE)
        reply = await self._call(_STORE + "InternalKVDel", request, pb.InternalKVDelReply)
        return reply.deleted_num > 0

    async def _ask_drain(
        self, node_id: RayNodeId, reason: DrainReason, message: str, deadline_s: float | None
    ) -> DrainAnswer:
        request = pb.DrainNodeRequest(
            node_id=bytes.fromhex(node_id),
            reason=_REASON[reason],
            reason_message=message,
            deadline_timestamp_ms=0 if deadline_s is None else int((time.time() + deadline_s) * 1000),
        )
        try:
            reply = await self._call(_AUTOSCALER + "DrainNode", request, pb.DrainNodeReply)
        except TokenRefused as error:
            return DrainAnswer(outcome=DrainOutcome.UNREACHABLE, message=str(error))
        except HeadUnreachable as error:
            # The head answered a moment ago, so the request may have reached it before the silence.
            return DrainAnswer(outcome=DrainOutcome.UNKNOWN, message=str(error))
        if reply.is_accepted:
            return DrainAnswer(outcome=DrainOutcome.ACCEPTED)
        return DrainAnswer(outcome=DrainOutcome.REJECTED, message=reply.rejection_reason_message)

    async def _free_after(self, answer: DrainAnswer, order: SlotOrder) -> DrainAnswer:
        try:
            await self.release_slots(order.cluster, order.pool, order.node)
        except HeadUnreachable as error:
            words = f"{answer.message} (its slot could not be freed: {error})"
            return DrainAnswer(outcome=answer.outcome, message=words)
        return answer

    async def _state(self) -> pb.ClusterResourceState:
        request = pb.GetClusterResourceStateRequest()
        path = _AUTOSCALER + "GetClusterResourceState"
        return (await self._call(path, request, pb.GetClusterResourceStateReply)).cluster_resource_state

    async def _get(self, key: str, namespace: bytes) -> bytes | None:
        request = pb.InternalKVGetRequest(key=key.encode(), namespace=namespace)
        reply = await self._call(_STORE + "InternalKVGet", request, pb.InternalKVGetReply)
        return None if reply.status.code == _NOT_FOUND else reply.value

    async def _put(self, key: str, value: bytes, *, overwrite: bool) -> bool:
        request = pb.InternalKVPutRequest(
            key=key.encode(), value=value, overwrite=overwrite, namespace=slots.NAMESPACE
        )
        return (await self._call(_STORE + "InternalKVPut", request, pb.InternalKVPutReply)).added

    async def _call(self, path: str, request: Any, reply: type[Reply]) -> Reply:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        method = self._channel.unary_unary(
            path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,  # type: ignore[attr-defined]  # every message has it
        )
        try:
            answer: Reply = await method(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._judged(error) from error
        return answer

    def _judged(self, error: grpc.aio.AioRpcError) -> HeadUnreachable:
        words = " ".join((error.details() or "").split())[:200]
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return TokenRefused(f"the head at {self._address} refuses our token: {words}")
        told = f"the head at {self._address} does not answer: {error.code().name} {words}"
        return HeadUnreachable(told, fault=fault_of(error.code().name, words))


_SLOT_UNUSED: Final = (DrainOutcome.REJECTED, DrainOutcome.UNREACHABLE)


def _held_by(full: slots.Full) -> str:
    return f"every slot is held, by {', '.join(full.holders) or 'others who were quicker'}"
