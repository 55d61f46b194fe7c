"""The corpora: every fault is found by its rule in time, and no noise leads to an act."""

from pathlib import Path

import pytest

from gpuherd.health import Action
from gpuherd_agent.rules import site_check
from gpuherd_agent.rules.catalog import RULES
from gpuherd_sim import corpus
from gpuherd_sim.corpus import Trace, TraceInvalid

FOLDER = Path(__file__).parents[2] / "corpus"
FAULTS = corpus.load(FOLDER / "faults.toml")
BENIGN = corpus.load(FOLDER / "benign.toml")
OUR_OWN = {
    "probe_died",
    "kernel_log_blind",
    "xid_application",
    "xid_unknown",
    "memory_full",
    "pcie_uncorrected",
}
"""Rules about ourselves, and those that only tell: no fault of a host to be caught."""


@pytest.mark.parametrize("trace", FAULTS, ids=lambda trace: trace.name)
def test_a_fault_is_found_by_its_rule_in_time(trace: Trace) -> None:
    assert corpus.judge(trace).why == ""


@pytest.mark.parametrize("trace", BENIGN, ids=lambda trace: trace.name)
def test_noise_leads_to_no_act_even_were_every_rule_to_act(trace: Trace) -> None:
    assert corpus.judge(trace).why == ""


def test_the_corpora_are_as_large_as_they_claim_and_no_name_is_used_twice() -> None:
    assert len(FAULTS) >= 40
    assert len(BENIGN) >= 25
    names = [trace.name for trace in (*FAULTS, *BENIGN)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_its_rule_a_fault_is_not_found(rule: corpus.Rule) -> None:
    """The check of the check: a trace that passes without its rule shows nothing."""
    meant = [trace for trace in FAULTS if trace.expected and trace.expected.rule == rule.name]
    setup = rule.name in {r.name for r in RULES if r.runbook == "setup.md"}
    assert meant or setup or rule.name in OUR_OWN | {site_check.NAME}, f"no trace raises {rule.name}"
    others = tuple(other for other in corpus.all_enforced() if other.name != rule.name)
    assert all(corpus.judge(trace, others).why for trace in meant)


def test_of_eight_lost_gpus_one_incident_is_told() -> None:
    trace = next(t for t in FAULTS if t.gpus == 8 and t.expected and t.expected.rule == "gpu_lost")
    _, verdict = list(corpus.play(trace, corpus.all_enforced()))[-1]
    assert [finding.rule for finding in verdict.findings] == ["gpu_lost"]


def test_a_trace_without_a_source_or_with_an_unknown_reading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[[trace]]\nname = "x"\nfor_s = 1\n')
    with pytest.raises(TraceInvalid, match="no source"):
        corpus.load(path)
    path.write_text(
        '[[trace]]\nname = "x"\nsource = "y"\nfor_s = 1\n[[trace.at]]\ns = 0\nset = { warmth = 1 }\n'
    )
    with pytest.raises(TraceInvalid, match="warmth"):
        corpus.load(path)


def test_a_benign_trace_that_acts_is_told_with_its_time() -> None:
    trace = Trace(
        name="x",
        source="y",
        gpus=1,
        for_s=5.0,
        period_s=1.0,
        steps=({"s": 2, "set": {"recovery_action": 2}},),
    )
    outcome = corpus.judge(trace)
    assert outcome.why.startswith("at 2 s: evict")
    assert trace.worst < Action.EVICT
