"""Inventory: order of documents, presence, Ray's entry of a node, and its place in the fleet."""

import pytest
from tests.kit.fleets import hold, limits, pool, ray_node

from gpuherd.health import Action, Severity, Verdict
from gpuherd.names import ClusterName, GpuUuid, NodeName, RayNodeId
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import ClusterSight, RayNode, RayStatus
from gpuherd.wire.documents import Gpu, Online, State
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.snapshot import Freshness, NodeView, Snapshot, Sourced, decode, encode

NAME = NodeName("n-1")
CLUSTER = ClusterName("c")


def state(epoch: int = 1, seq: int = 1, *, node: str = NAME, **given: object) -> State:
    facts = {"phase": Phase.OUTSIDE, "sent_at": 0.0, "verdict": Verdict(severity=Severity.OK), **given}
    return State(cluster=CLUSTER, node=NodeName(node), epoch=epoch, seq=seq, **facts)  # type: ignore[arg-type]


def online(epoch: int, conn: int, *, here: bool) -> Online:
    return Online(cluster=CLUSTER, node=NAME, epoch=epoch, conn=conn, online=here)


def look(
    inventory: Inventory,
    *,
    now: float = 10.0,
    nodes: tuple[RayNode, ...] = (),
    head: Freshness = Freshness.FRESH,
    order: bool | None = None,
) -> Snapshot:
    cluster = Sourced(value=ClusterSight(session="s", nodes=nodes), freshness=head, read_at=now)
    orders = {} if order is None else {NAME: order}
    return inventory.snapshot(cluster=cluster, limits=limits(pool(1)), orders=orders, now=now)


def only(snapshot: Snapshot) -> NodeView:
    return snapshot.nodes[NAME]


def test_older_and_repeated_states_are_ignored() -> None:
    inventory = Inventory()
    assert inventory.receive_state(state(2, 5), at=0.0)
    assert not inventory.receive_state(state(2, 5), at=9.0)
    assert not inventory.receive_state(state(2, 4), at=9.0)
    assert not inventory.receive_state(state(1, 99), at=9.0)
    assert only(look(inventory)).age_s == 10.0
    assert inventory.receive_state(state(3, 1), at=9.0)
    assert only(look(inventory)).age_s == 1.0


def test_a_retained_state_tells_facts_and_no_time() -> None:
    inventory = Inventory()
    inventory.receive_state(state(phase=Phase.MEMBER), at=9.0, retained=True)
    view = only(look(inventory))
    assert (view.phase, view.age_s, view.known) == (Phase.MEMBER, None, True)


def test_a_will_never_erases_state() -> None:
    inventory = Inventory()
    inventory.receive_state(state(phase=Phase.MEMBER, serve=True), at=9.0)
    inventory.receive_online(online(1, 1, here=True))
    inventory.receive_online(online(1, 1, here=False))
    view = only(look(inventory))
    assert (view.online, view.phase, view.serve, view.age_s) == (False, Phase.MEMBER, True, 1.0)


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        pytest.param((1, 9), True, id="will of an earlier run"),
        pytest.param((2, 1), True, id="will of an earlier connection"),
        pytest.param((2, 2), False, id="will of this connection"),
        pytest.param((3, 1), False, id="word of a later run"),
    ],
)
def test_presence_is_ordered_by_epoch_and_connection(late: tuple[int, int], expected: bool) -> None:
    inventory = Inventory()
    inventory.receive_online(online(2, 2, here=True))
    inventory.receive_online(online(*late, here=False))
    assert only(look(inventory)).online is expected


def test_presence_older_than_the_state_is_not_known() -> None:
    inventory = Inventory()
    inventory.receive_online(online(1, 1, here=False))
    inventory.receive_state(state(2, 1), at=9.0)
    assert only(look(inventory)).online is None


def test_a_name_in_no_pool_is_kept_apart() -> None:
    inventory = Inventory()
    inventory.receive_state(state(node="stranger"), at=9.0)
    snapshot = look(inventory)
    assert snapshot.uninvited == ("stranger",)
    assert set(snapshot.nodes) == {NAME}


def test_a_live_ray_node_counts_before_dead_ones_of_the_same_name() -> None:
    dead = RayNode(id=RayNodeId("zz"), name=NAME, status=RayStatus.DEAD)
    view = only(look(Inventory(), nodes=(ray_node(NAME), dead)))
    assert view.ray is not None
    assert view.ray.is_alive


def test_gpus_usable_are_those_present_and_healthy() -> None:
    uuids = [GpuUuid(f"GPU-{i}") for i in range(3)]
    listed = tuple(Gpu(uuid=u, present=i != 0, healthy=i != 1) for i, u in enumerate(uuids))
    inventory = Inventory()
    inventory.receive_state(state(gpus=listed), at=9.0)
    assert only(look(inventory)).gpus_usable == 1


@pytest.mark.parametrize(
    ("order", "facts", "in_ray", "asked"),
    [
        pytest.param(None, {"serve": True}, False, True, id="it serves by itself"),
        pytest.param(None, {}, True, True, id="Ray lists it before we ever ordered"),
        pytest.param(None, {}, False, False, id="it rests"),
        pytest.param(False, {"serve": True}, True, False, id="our order counts"),
        pytest.param(True, {}, False, True, id="our order is under way"),
    ],
)
def test_a_first_start_changes_nothing(
    order: bool | None, facts: dict[str, object], in_ray: bool, asked: bool
) -> None:
    inventory = Inventory()
    inventory.receive_state(state(**facts), at=9.0)
    nodes = (ray_node(NAME),) if in_ray else ()
    assert only(look(inventory, nodes=nodes, order=order)).serve is asked


SICK = Verdict(severity=Severity.CRITICAL, action=Action.DRAIN)


@pytest.mark.parametrize(
    ("facts", "order", "in_ray", "place"),
    [
        pytest.param({}, None, None, Lifecycle.STANDBY, id="outside"),
        pytest.param({}, True, None, Lifecycle.BOOTING, id="outside and asked"),
        pytest.param({"holds": (hold("health"),)}, True, None, Lifecycle.QUARANTINED, id="held by health"),
        pytest.param({"holds": (hold("repair"),)}, True, None, Lifecycle.REPAIRING, id="held by repair"),
        pytest.param({"holds": (hold("user:bob"),)}, True, None, Lifecycle.STANDBY, id="held by a person"),
        pytest.param({"holds": (hold("scaler"),)}, False, None, Lifecycle.STANDBY, id="held by us"),
        pytest.param({"verdict": SICK}, True, None, Lifecycle.QUARANTINED, id="sick without a hold yet"),
        pytest.param({"phase": Phase.VERIFYING}, True, None, Lifecycle.BOOTING, id="verifying"),
        pytest.param({"phase": Phase.JOINING}, True, None, Lifecycle.JOINING, id="joining"),
        pytest.param({"phase": Phase.MEMBER}, True, RayStatus.IDLE, Lifecycle.SERVING, id="member"),
        pytest.param(
            {"phase": Phase.MEMBER}, True, None, Lifecycle.JOINING, id="member that Ray does not list"
        ),
        pytest.param(
            {"phase": Phase.MEMBER}, True, RayStatus.DRAINING, Lifecycle.DRAINING, id="Ray says drains"
        ),
        pytest.param({"phase": Phase.DRAINING}, True, RayStatus.RUNNING, Lifecycle.DRAINING, id="drains"),
        pytest.param({"phase": Phase.LEAVING}, True, None, Lifecycle.LEAVING, id="leaves"),
    ],
)
def test_place_in_the_fleet(
    facts: dict[str, object], order: bool | None, in_ray: RayStatus | None, place: Lifecycle
) -> None:
    inventory = Inventory()
    inventory.receive_state(state(**facts), at=9.0)
    nodes = (ray_node(NAME, status=in_ray),) if in_ray else ()
    view = only(look(inventory, nodes=nodes, order=order))
    assert (view.lifecycle, bool(view.reason)) == (place, True)


@pytest.mark.parametrize(
    ("in_ray", "head", "place"),
    [
        pytest.param(True, Freshness.FRESH, Lifecycle.UNREACHABLE, id="Ray lists it"),
        pytest.param(False, Freshness.FAILED, Lifecycle.UNREACHABLE, id="nobody knows"),
        pytest.param(False, Freshness.FRESH, Lifecycle.LOST, id="Ray does not list it"),
    ],
)
def test_a_silent_agent_is_lost_only_when_ray_freshly_agrees(
    in_ray: bool, head: Freshness, place: Lifecycle
) -> None:
    inventory = Inventory()
    inventory.receive_state(state(phase=Phase.MEMBER), at=0.0)
    nodes = (ray_node(NAME),) if in_ray else ()
    assert only(look(inventory, now=31.0, nodes=nodes, head=head)).lifecycle is place


def test_a_node_that_never_spoke_is_missing_even_with_an_order_to_rest() -> None:
    view = only(look(Inventory(), order=False))
    assert (view.lifecycle, view.known) == (Lifecycle.MISSING, False)


def test_a_snapshot_survives_json() -> None:
    inventory = Inventory()
    inventory.receive_state(state(holds=(hold("health"),)), at=9.0)
    snapshot = look(inventory, nodes=(ray_node(NAME),))
    assert decode(encode(snapshot)) == snapshot
