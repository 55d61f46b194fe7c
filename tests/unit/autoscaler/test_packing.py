"""Packing: where requests go, how fractions of GPUs are counted, and what opens a node."""

import pytest
from tests.kit.fleets import gpus

from gpuherd.ray import Shape
from gpuherd_autoscaler.packing import UNBOUNDED, Bin, can_take, pack


def node(name: str, gpu: float = 8.0, **given: object) -> Bin:
    return Bin(name=name, free={"GPU": gpu, "CPU": 96.0}, group="a", **given)  # type: ignore[arg-type]


def count(packing_shapes: tuple[Shape, ...]) -> int:
    return sum(shape.count for shape in packing_shapes)


@pytest.mark.parametrize(
    ("free", "asked", "fits"),
    [
        pytest.param({"GPU": 8.0}, gpus(1, 20), 8, id="whole GPUs"),
        pytest.param({"GPU": 8.0}, gpus(3, 20), 2, id="three at a time leave two unused"),
        pytest.param({"GPU": 2.0}, gpus(0.6, 20), 2, id="0.6 twice does not share a GPU"),
        pytest.param({"GPU": 2.5}, gpus(0.5, 20), 5, id="halves also use what is left of a GPU"),
        pytest.param({"GPU": 1.5}, gpus(1, 20), 1, id="a half is no whole"),
        pytest.param({"GPU": 8.0, "CPU": 3.0}, gpus(1, 20, CPU=2.0), 1, id="CPUs bind too"),
        pytest.param({"GPU": 8.0, "CPU": UNBOUNDED}, gpus(1, 20, CPU=2.0), 8, id="unknown CPUs do not bind"),
        pytest.param({"GPU": 8.0}, gpus(1, 20, licence=1.0), 0, id="a custom resource that is not there"),
        pytest.param({"GPU": 8.0, "licence": 2.0}, gpus(1, 20, licence=1.0), 2, id="a custom resource"),
        pytest.param({"GPU": 0.3}, gpus(0.1, 20), 3, id="tenths are exact"),
    ],
)
def test_as_many_requests_are_placed_as_fit(free: dict[str, float], asked: Shape, fits: int) -> None:
    packing = pack((asked,), (Bin(name="n", free=free),), room={})
    assert count(packing.placed.get("n", ())) == fits
    assert count(packing.left) == asked.count - fits


def test_halves_of_two_gpus_make_no_whole_one() -> None:
    packing = pack((gpus(0.6, 2), gpus(1, 1)), (node("n", 2.0),), room={})
    assert count(packing.placed["n"]) == 2
    assert packing.left == (gpus(0.6, 1),)


def test_small_fractions_fill_what_larger_ones_left_of_a_gpu() -> None:
    packing = pack((gpus(0.6, 2), gpus(0.4, 2)), (node("n", 2.0),), room={})
    assert packing.left == ()


def test_the_tightest_node_is_filled_first() -> None:
    packing = pack((gpus(1, 2),), (node("wide", 8.0), node("tight", 2.0)), room={})
    assert set(packing.placed) == {"tight"}


def test_an_opened_node_is_filled_before_another_is_opened() -> None:
    bins = (node("a", 8.0, opens=True), node("b", 4.0, opens=True))
    packing = pack((gpus(8, 1), gpus(1, 1)), (*bins, node("c", 8.0, opens=True)), room={"a": 3})
    assert set(packing.placed) == {"a", "b"}
    packing = pack(
        (gpus(4, 1), gpus(1, 4)), (node("a", 8.0, opens=True), node("b", 8.0, opens=True)), room={"a": 2}
    )
    assert set(packing.placed) == {"a"}


def test_lower_tiers_are_filled_first_and_room_bounds_what_is_opened() -> None:
    bins = (node("serving", 2.0), node("x", opens=True, tier=1), node("y", opens=True, tier=1))
    packing = pack((gpus(1, 20),), bins, room={"a": 1})
    assert count(packing.placed["serving"]) == 2
    assert count(packing.placed["x"]) == 8
    assert packing.left == (gpus(1, 10),)


def test_room_is_spent_on_a_node_that_fits_the_shape() -> None:
    bins = (node("a", 7.0, opens=True), node("b", 8.0, opens=True))
    assert set(pack((gpus(8, 1),), bins, room={"a": 1}).placed) == {"b"}


@pytest.mark.parametrize(
    ("asked", "opens"),
    [
        pytest.param(gpus(0, 1, CPU=1.0), False, id="CPU alone"),
        pytest.param(gpus(0, 1, memory=1.0), False, id="memory alone"),
        pytest.param(Shape(resources=()), False, id="nothing at all"),
        pytest.param(gpus(0.1, 1, CPU=1.0), True, id="a tenth of a GPU"),
        pytest.param(gpus(0, 1, licence=1.0), True, id="a custom resource"),
    ],
)
def test_a_gpu_node_is_opened_only_for_what_a_plain_host_lacks(asked: Shape, opens: bool) -> None:
    free = {"GPU": 8.0, "CPU": 96.0, "memory": 1e12, "licence": 1.0}
    packing = pack((asked,), (Bin(name="n", free=free, group="a", opens=True),), room={"a": 1})
    assert bool(packing.placed) is opens


def test_cpu_work_rides_along_on_a_gpu_node_that_is_opened_anyway() -> None:
    packing = pack((gpus(1, 1), gpus(0, 5, CPU=1.0)), (node("n", opens=True),), room={"a": 1})
    assert packing.left == ()


def test_a_cpu_host_is_opened_for_cpu_work() -> None:
    host = Bin(name="c", free={"CPU": 4.0}, group="a", opens=True)
    assert count(pack((gpus(0, 9, CPU=1.0),), (host,), room={"a": 1}).placed["c"]) == 4


def test_neither_order_nor_splitting_of_demand_matters() -> None:
    bins = [node(f"n{i}", float(1 + i % 8), opens=i > 4, tier=int(i > 4)) for i in range(9)]
    demand = [gpus(1, 3), gpus(4, 2), gpus(0.5, 7), gpus(1, 4)]
    one = pack(demand, bins, room={"a": 3})
    other = pack([gpus(0.5, 7), gpus(1, 7), gpus(4, 1), gpus(4, 1)], reversed(bins), room={"a": 3})
    assert (dict(one.placed), one.left) == (dict(other.placed), other.left)


def test_a_shape_larger_than_any_node_fits_nowhere() -> None:
    assert not can_take({"GPU": 8.0, "CPU": UNBOUNDED}, gpus(16))
    assert can_take({"GPU": 8.0, "CPU": UNBOUNDED}, gpus(8, 5, CPU=1_000.0))
