"""The series of NVIDIA's exporter: its names, units and labels, only when asked for, and no sentinels."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families
from tests.kit.node_facts import gpu_reading, sick_node

from gpuherd_agent.dcgm_compat import LABELS, METRICS
from gpuherd_agent.exporter import NodeFacts, render
from gpuherd_agent.readings import GpuReading, ProbeOutcome, ProbeReading


def facts(*gpus: GpuReading) -> NodeFacts:
    plain = sick_node()
    assert plain.snapshot is not None
    probe = ProbeReading(outcome=ProbeOutcome.OK, gpus=gpus, counted=len(gpus), driver="570.86.15")
    return replace(plain, dcgm_compat=True, snapshot=replace(plain.snapshot, probe=probe))


def series(made: NodeFacts) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(made).decode()):
        for sample in family.samples:
            if sample.name.startswith("DCGM_"):
                # The parser gives counters the ending of its own convention.
                name = sample.name.removesuffix("_total")
                found.setdefault(name, []).append((sample.labels, sample.value))
    return found


def test_a_page_has_them_only_when_asked_for() -> None:
    asked = facts(gpu_reading(0))
    assert series(asked)
    assert series(replace(asked, dcgm_compat=False)) == {}


def test_labels_and_units_are_those_of_that_exporter() -> None:
    made = series(facts(replace(gpu_reading(3), reserved_bytes=512 * 2**20)))
    ((labels, util),) = made["DCGM_FI_DEV_GPU_UTIL"]
    assert labels == {
        "gpu": "3",
        "UUID": "GPU-0000-3",
        "pci_bus_id": "00000000:03:00.0",
        "device": "nvidia3",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "gpu-1",
        "DCGM_FI_DRIVER_VERSION": "570.86.15",
    }
    assert util == 25.0
    values = {name: found[0][1] for name, found in made.items()}
    assert (values["DCGM_FI_DEV_FB_USED"], values["DCGM_FI_DEV_FB_RESERVED"]) == (1_024.0, 512.0)
    assert values["DCGM_FI_DEV_FB_FREE"] == 80 * 1_024 - 1_024 - 512
    assert (values["DCGM_FI_DEV_GPU_TEMP"], values["DCGM_FI_DEV_POWER_USAGE"]) == (44.0, 120.5)


def test_what_the_driver_does_not_offer_is_left_out() -> None:
    bare = GpuReading(gpu=gpu_reading(0).gpu, index=0)
    assert series(facts(bare)) == {}


def test_every_series_has_the_labels_that_dashboards_select_by_and_can_be_exported() -> None:
    whole = replace(
        gpu_reading(0),
        reserved_bytes=0,
        ecc_uncorrected_aggregate_total=0,
        is_row_remap_failed=False,
        rows_remapped_corrected_total=1,
        rows_remapped_uncorrected_total=0,
    )
    assert set(series(facts(whole))) == {metric.name for metric in METRICS}
    assert all(metric.labels == LABELS for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
