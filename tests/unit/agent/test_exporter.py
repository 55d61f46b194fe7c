"""The metrics page: what is on it, and what is left out."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.node_facts import LOST, gossip_facts, gpu_reading, hung_node, sick_node

from gpuherd.exposition import Kind
from gpuherd.health import Severity
from gpuherd.phases import Phase
from gpuherd_agent.exporter import NodeFacts, Page, render, samples
from gpuherd_agent.metrics_catalog import METRICS
from gpuherd_agent.readings import ProbeOutcome, ProbeReading

GOLDEN = Path(__file__).parents[2] / "golden" / "agent_metrics.prom"

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(facts: NodeFacts) -> Series:
    """Read the page with a parser that is not ours."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(render(facts).decode())
        for sample in family.samples
    }


def by_label(facts: NodeFacts, name: str, label: str) -> dict[str, float]:
    return {dict(labels)[label]: value for (found, labels), value in parsed(facts).items() if found == name}


def test_the_page_of_a_sick_node_is_the_golden_one() -> None:
    assert render(sick_node()).decode() == GOLDEN.read_text()


def test_every_exported_family_is_in_the_catalogue_and_every_metric_there_can_be_exported() -> None:
    catalogue = {metric.name: metric for metric in METRICS}
    facts = sick_node()
    snapshot = facts.snapshot
    assert snapshot is not None
    assert snapshot.host is not None
    host = replace(snapshot.host, shm_free_bytes=1)
    everything = replace(facts, snapshot=replace(snapshot, host=host), gossip=gossip_facts())
    exported = list(samples(everything))
    for sample in exported:
        assert len(sample.labels) == len(catalogue[sample.name].labels), sample.name
    assert {sample.name for sample in exported} == set(catalogue)


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("gpuherd_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert metric.help.endswith("."), metric.name


def test_states_are_one_series_each_and_exactly_one_of_them_is_1() -> None:
    phases = by_label(sick_node(), "gpuherd_node_phase", "phase")
    assert set(phases) == {phase.value for phase in Phase}
    assert [phase for phase, value in phases.items() if value] == ["draining"]
    severities = by_label(sick_node(), "gpuherd_node_verdict", "severity")
    assert set(severities) == {severity.value for severity in Severity}
    assert [severity for severity, value in severities.items() if value] == ["critical"]


def test_a_lost_gpu_stays_on_the_page_as_not_present_and_has_no_readings() -> None:
    assert by_label(sick_node(), "gpuherd_gpu_present", "uuid") == {
        gpu_reading(0).gpu: 1,
        gpu_reading(1).gpu: 1,
        LOST: 0,
    }
    assert by_label(sick_node(), "gpuherd_gpu_healthy", "uuid")[LOST] == 0
    assert LOST not in by_label(sick_node(), "gpuherd_gpu_info", "uuid")


def test_a_driver_that_does_not_answer_says_nothing_of_any_gpu() -> None:
    page = {name for name, _ in parsed(hung_node())}
    assert not {"gpuherd_gpu_present", "gpuherd_gpus_counted", "gpuherd_gpu_temperature_celsius"} & page
    assert parsed(hung_node())["gpuherd_probe_up", ()] == 0
    assert parsed(hung_node())["gpuherd_probe_stuck_children", ()] == 1
    assert set(by_label(hung_node(), "gpuherd_gpu_healthy", "uuid").values()) == {0}


def test_a_value_that_the_driver_lacks_is_left_out_and_not_zero() -> None:
    assert set(by_label(sick_node(), "gpuherd_gpu_power_watts", "uuid")) == {gpu_reading(0).gpu}


def test_people_share_one_owner_label() -> None:
    holds = {
        (dict(labels)["owner"], dict(labels)["kind"])
        for (name, labels), value in parsed(sick_node()).items()
        if name == "gpuherd_node_hold" and value
    }
    assert holds == {("health", "drain"), ("user", "cordon")}


def test_a_label_with_quotes_backslash_and_newline_survives_a_strict_parser() -> None:
    assert 'odd "model" \\ of\nmine' in by_label(sick_node(), "gpuherd_gpu_info", "model")


@pytest.fixture
def before_the_first_tick() -> NodeFacts:
    facts = sick_node()
    return NodeFacts(cluster=facts.cluster, node=facts.node, version="0.1.0", started_at=0.0)


def test_before_the_first_tick_the_page_says_only_what_is_known(before_the_first_tick: NodeFacts) -> None:
    page = {name for name, _ in parsed(before_the_first_tick)}
    assert "gpuherd_build_info" in page
    assert not [name for name in page if name.startswith(("gpuherd_gpu", "gpuherd_host", "gpuherd_probe"))]
    assert "gpuherd_head_reachable" not in page


def test_the_page_is_rendered_once_for_one_tick() -> None:
    page, facts = Page(), sick_node()
    first = page.read(facts)
    assert page.read(facts) is first
    assert page.read(hung_node()) is not first


@pytest.mark.parametrize(("code", "action"), [(0, "none"), (4, "drain_and_reset"), (99, "other")])
def test_the_recovery_that_the_driver_asks_for_is_the_one_that_is_1(code: int, action: str) -> None:
    facts = sick_node()
    snapshot = facts.snapshot
    assert snapshot is not None
    probe = ProbeReading(outcome=ProbeOutcome.OK, gpus=(replace(gpu_reading(0), recovery_action=code),))
    asked = by_label(
        replace(facts, snapshot=replace(snapshot, probe=probe)), "gpuherd_gpu_recovery_action", "action"
    )
    assert [name for name, value in asked.items() if value] == [action]
