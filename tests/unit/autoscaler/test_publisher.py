"""What is kept on the broker: what the ledger says, again while a node lags, and nothing else."""

from pathlib import Path

import pytest
from tests.kit.scaler import CLUSTER, HERD, ONE, TWO, KeptBus, book, document, state

from gpuherd.names import NodeName, OperationId
from gpuherd.wire import topics
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Desired, Roster, ScalerState
from gpuherd_autoscaler import orders
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import Change
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_autoscaler.publisher import LAG_S, Publisher

ORDERS = topics.node(CLUSTER, ONE, "desired")


def publisher(made: Book) -> tuple[Publisher, KeptBus]:
    bus = KeptBus()
    return Publisher(bus, made.ledger, CLUSTER, leader="host:1"), bus


def test_an_order_is_kept_as_it_was_committed(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        made.on_order(lambda node: tells.offer(node, now=0.0))
        People(made).drain(DrainWish(node=ONE, by="ann"))
        order = made.order(ONE)
        assert order is not None
        assert bus.kept == [(ORDERS, order.payload)]


def test_what_was_prepared_and_not_committed_cannot_be_published(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        assert made.next_order(ONE, orders.serve(OperationId("s"), "demand", ())) is not None
        tells.offer_all(HERD.names, now=0.0)
        assert bus.kept == []


def test_on_a_new_connection_every_order_is_published_again(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        for node in (ONE, TWO):
            People(made).drain(DrainWish(node=node, by="ann"))
        tells.offer_all(HERD.names, now=0.0)
        tells.offer_all(HERD.names, now=1.0)
        assert [decode(p, Desired).node for _, p in bus.kept] == [ONE, TWO, ONE, TWO]


@pytest.mark.parametrize(
    ("has_obeyed", "after_s", "is_offered"),
    [
        pytest.param(False, LAG_S - 0.1, False, id="within its time"),
        pytest.param(False, LAG_S, True, id="it lags"),
        pytest.param(True, 10 * LAG_S, False, id="it has obeyed"),
    ],
)
def test_an_order_is_published_again_while_its_node_lags(
    tmp_path: Path, has_obeyed: bool, after_s: float, is_offered: bool
) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        People(made).drain(DrainWish(node=ONE, by="ann"))
        tells.offer(ONE, now=0.0)
        if has_obeyed:
            made.inventory.receive_state(state(obeys=document(made)), at=0.0)
        tells.offer_lagging(HERD.names, made.inventory, now=after_s)
        assert len(bus.kept) == 1 + is_offered
        tells.offer_lagging(HERD.names, made.inventory, now=after_s + 0.05)
        assert len(bus.kept) == 1 + is_offered


def test_an_order_never_published_in_this_run_is_published_at_once(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        People(made).drain(DrainWish(node=ONE, by="ann"))
        tells, bus = publisher(made)
        tells.offer_lagging(HERD.names, made.inventory, now=0.0)
        assert [topic for topic, _ in bus.kept] == [ORDERS]


def rosters(bus: KeptBus) -> list[tuple[int, int, tuple[NodeName, ...]]]:
    found = [decode(p, Roster) for topic, p in bus.kept if topic.endswith("/roster")]
    return [(r.term, r.version, r.names) for r in found]


def test_the_roster_is_published_when_it_changes_and_rises(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        for names in ((ONE,), (ONE,), (ONE, TWO)):
            tells.tell_roster(names)
        made.commit(Change(term=2))
        tells.tell_roster((ONE, TWO))
        assert rosters(bus) == [(1, 1, (ONE,)), (1, 2, (ONE, TWO)), (2, 3, (ONE, TWO))]


def test_the_roster_tells_the_racks_of_those_it_names(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        bus = KeptBus()
        racks = {ONE: "east", NodeName("elsewhere"): "west"}
        Publisher(bus, made.ledger, CLUSTER, racks=racks).tell_roster((ONE, TWO))
        ((_, payload),) = bus.kept
        assert decode(payload, Roster).racks == {ONE: "east"}


def test_the_scalers_state_fits_its_document_however_long_its_decision(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        tells, bus = publisher(made)
        tells.tell_state(mode="enforce", decision="x" * 5_000, wall=7.0)
        ((topic, payload),) = bus.kept
        assert topic == topics.cluster_wide(CLUSTER, "scaler/state")
        said = decode(payload, ScalerState)
        assert (said.leader, said.term, said.mode, said.sent_at) == ("host:1", 1, "enforce", 7.0)
