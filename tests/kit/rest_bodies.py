"""Builders of REST bodies for tests: everything has a default."""

import msgspec

from gpuherd.health import Severity
from gpuherd.names import NodeName, OperationId, PoolName
from gpuherd.phases import Lifecycle
from gpuherd.rest import Demand, Event, Fleet, Node, Operation, OperationState, Step


def node(name: str = "gpu-1", **changes: object) -> Node:
    """Return a serving node of 8 GPUs."""
    plain = Node(
        name=NodeName(name),
        pool=PoolName("a100"),
        lifecycle=Lifecycle.SERVING,
        reason="wanted by the queue",
        severity=Severity.OK,
        serve=True,
        gpus_declared=8,
        gpus_counted=8,
        gpus_healthy=8,
        ray_status="running",
    )
    return msgspec.structs.replace(plain, **changes)


def fleet(**changes: object) -> Fleet:
    """Return a fleet of three nodes of which one serves."""
    plain = Fleet(
        cluster="demo",
        mode="enforce",
        term=7,
        nodes=3,
        by_lifecycle={"serving": 1, "standby": 2},
        gpus_declared=24,
        gpus_counted=24,
        gpus_healthy=24,
        gpus_serving=8,
        demand=(Demand(resources={"GPU": 1.0}, count=14),),
        head_reachable=True,
        broker_connected=True,
    )
    return msgspec.structs.replace(plain, **changes)


def operation(state: OperationState = OperationState.OPEN, *steps: str, **changes: object) -> Operation:
    """Return a drain of gpu-1 with these steps, one a second."""
    plain = Operation(
        id=OperationId("op-1"),
        kind="drain",
        node=NodeName("gpu-1"),
        by="user:ada",
        reason="manual by ada",
        state=state,
        created_at=1000.0,
        closed_at=None if state is OperationState.OPEN else 1065.0,
        steps=tuple(Step(at=1000.0 + i, text=text) for i, text in enumerate(steps)),
    )
    return msgspec.structs.replace(plain, **changes)


def event(number: int, reason: str = "it happened") -> Event:
    """Return one event."""
    return Event(id=number, at=1000.0 + number, kind="node.joined", reason=reason, node=NodeName("gpu-1"))
