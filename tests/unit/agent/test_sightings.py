"""What earlier looks add to a new one."""

from dataclasses import replace

import pytest
from tests.kit.readings import GIB, cycle, failed, gpu, look, uuid

from gpuherd_agent.memory import Board
from gpuherd_agent.readings import HungGpu, ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.sightings import Sightings, boards


def after(*probes: ProbeReading) -> Snapshot:
    """Return the last of these looks."""
    seen = Sightings()
    snapshot = Snapshot(at=0.0, declared=2)
    for at, probe in enumerate(probes):
        snapshot = seen.take(probe=probe, declared=2, now=float(at))
    return snapshot


def test_a_gpu_that_vanished_stays_known_in_the_order_of_its_first_look() -> None:
    snapshot = after(cycle(gpu(1), gpu(0)), cycle(gpu(0)), failed(ProbeOutcome.DEADLINE))
    assert snapshot.known == (uuid(1), uuid(0))
    assert snapshot.at == 2.0


def test_a_gpu_that_hangs_nameless_gets_the_one_name_that_is_left() -> None:
    hung = replace(cycle(gpu(0), counted=2), hung=(HungGpu(index=1),))
    assert [h.gpu for h in after(cycle(gpu(0), gpu(1)), hung).probe.hung] == [uuid(1)]


@pytest.mark.parametrize(
    "hung",
    [
        pytest.param((HungGpu(index=1), HungGpu(index=2)), id="two hang and one is missing"),
        pytest.param((HungGpu(index=1, gpu=uuid(1)),), id="it has a name"),
    ],
)
def test_a_hang_gets_no_name_where_it_could_be_another(hung: tuple[HungGpu, ...]) -> None:
    probe = replace(cycle(gpu(0), counted=3), hung=hung)
    assert after(cycle(gpu(0), gpu(1)), probe).probe.hung == hung


def test_a_look_that_read_nothing_keeps_every_baseline() -> None:
    snapshot = after(cycle(gpu(ecc_uncorrected_volatile_total=4)), failed(ProbeOutcome.CHILD_DIED))
    assert snapshot.ecc_baseline == {uuid(0): 4}
    assert snapshot.total_bytes_baseline == {uuid(0): 80 * GIB}


def test_the_first_count_of_errors_is_the_baseline_while_it_rises() -> None:
    probes = [cycle(gpu(ecc_uncorrected_volatile_total=count)) for count in (4, 5, 9)]
    assert after(*probes).ecc_baseline == {uuid(0): 4}


def test_a_count_below_its_baseline_is_a_driver_that_was_loaded_anew() -> None:
    probes = [cycle(gpu(ecc_uncorrected_volatile_total=count)) for count in (4, 1, 2)]
    assert after(*probes).ecc_baseline == {uuid(0): 1}


def test_a_count_that_is_not_read_moves_no_baseline() -> None:
    probes = [cycle(gpu(ecc_uncorrected_volatile_total=count)) for count in (None, 4, None)]
    assert after(*probes).ecc_baseline == {uuid(0): 4}


def test_memory_is_held_against_its_first_reading_and_no_later_one() -> None:
    probes = [cycle(gpu(total_bytes=total)) for total in (None, 80 * GIB, 70 * GIB)]
    assert after(*probes).total_bytes_baseline == {uuid(0): 80 * GIB}


def test_an_address_outlives_a_reading_without_one() -> None:
    snapshot = after(cycle(gpu(3)), cycle(gpu(3, pci_bus_id="", errors={"pci_bus_id": 15})))
    assert snapshot.pci_bus_ids == {uuid(3): "00000000:03:00.0"}


def test_a_snapshot_is_not_changed_by_a_later_look() -> None:
    seen = Sightings()
    first = seen.take(probe=cycle(gpu(0)), declared=2, now=0.0)
    seen.take(probe=cycle(gpu(0), gpu(1)), declared=2, now=1.0)
    assert first.known == (uuid(0),)
    assert set(first.ecc_baseline) == {uuid(0)}


def test_a_lost_gpu_goes_by_its_name_after_a_restart() -> None:
    first = look(cycle(*(gpu(i) for i in range(3))), declared=3)
    again = Sightings(boards(first))
    snapshot = look(cycle(gpu(0), gpu(1), lost=(2,)), declared=3, before=again)
    assert snapshot.known == (uuid(0), uuid(1), uuid(2))
    assert snapshot.pci_bus_ids[uuid(2)] == "00000000:02:00.0"


def test_a_board_that_was_swapped_is_forgotten_once_all_declared_ones_answer() -> None:
    again = Sightings((Board(gpu=uuid(9)),))
    assert look(cycle(gpu(0)), declared=2, before=again).known == (uuid(9), uuid(0))
    assert look(cycle(gpu(0), gpu(1)), declared=2, before=again).known == (uuid(0), uuid(1))
