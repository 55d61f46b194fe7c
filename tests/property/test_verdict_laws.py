"""Laws of the verdict over any history of looks."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.readings import cycle, failed, gpu

from gpuherd.health import Action, Severity
from gpuherd_agent.readings import GpuReading, ProbeOutcome, ProbeReading
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.verdict import Judge

ENFORCED = {rule.name for rule in RULES if rule.enforce}

CELSIUS = st.sampled_from([None, 0.0, 45.0, 86.0, 90.0, 94.0, 255.0])
ERRORS = st.sampled_from([{}, {}, {}, {"power_watts": 15}, {"power_watts": 16}, {"power_watts": 999}])


@st.composite
def gpus(draw: st.DrawFn, index: int) -> GpuReading:
    return gpu(
        index,
        core_celsius=draw(CELSIUS),
        errors=draw(ERRORS),
        ecc_uncorrected_volatile_total=draw(st.sampled_from([None, 0, 0, 1])),
        recovery_action=draw(st.sampled_from([None, 0, 0, 2])),
    )


@st.composite
def probes(draw: st.DrawFn) -> ProbeReading:
    outcome = draw(st.sampled_from([ProbeOutcome.OK, ProbeOutcome.OK, *ProbeOutcome]))
    if outcome is not ProbeOutcome.OK:
        return failed(outcome, missed=draw(st.integers(1, 3)), code=9)
    here = draw(st.sets(st.integers(0, 2)))
    lost = draw(st.integers(0, 3 - len(here)))
    return cycle(*[draw(gpus(i)) for i in sorted(here)], lost=range(len(here), len(here) + lost))


HISTORY = st.lists(probes(), max_size=30)
BLIND = st.sampled_from([ProbeOutcome.STARTING, ProbeOutcome.CHILD_DIED])


class Node:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.seen = Sightings()
        self.at = 0.0

    def look(self, probe: ProbeReading) -> tuple[Severity, Action, frozenset[str]]:
        self.at += 1.0
        snapshot = self.seen.take(probe=probe, declared=3, now=self.at)
        verdict = self.judge.step(snapshot)
        return verdict.severity, verdict.action, frozenset(f.rule for f in verdict.findings)


@given(HISTORY)
@settings(max_examples=150, deadline=None)
def test_only_enforced_rules_act(history: list[ProbeReading]) -> None:
    node = Node(Judge())
    for probe in history:
        _, action, rules = node.look(probe)
        assert action <= Action.WATCH or rules & ENFORCED


@given(HISTORY, HISTORY)
@settings(max_examples=150, deadline=None)
def test_what_is_latched_ends_by_no_reading(before: list[ProbeReading], after: list[ProbeReading]) -> None:
    node = Node(Judge())
    for probe in before:
        node.look(probe)
    latched = {finding.key for finding in node.judge.latched}
    again = Node(Judge(latched=node.judge.latched))
    for probe in after:
        node.look(probe)
        again.look(probe)
    assert latched <= {finding.key for finding in node.judge.latched}
    assert latched <= {finding.key for finding in again.judge.latched}


@given(HISTORY, BLIND)
@settings(max_examples=150, deadline=None)
def test_looks_that_read_nothing_end_no_finding(history: list[ProbeReading], outcome: ProbeOutcome) -> None:
    node = Node(Judge())
    for probe in history:
        node.look(probe)
    _, action, rules = node.look(failed(ProbeOutcome.STARTING))
    for _ in range(10):
        _, later, still = node.look(failed(outcome))
    assert rules <= still
    assert action <= later


@given(HISTORY)
@settings(max_examples=100, deadline=None)
def test_what_is_not_known_is_never_ok(history: list[ProbeReading]) -> None:
    node = Node(Judge())
    for probe in history:
        severity, _, _ = node.look(probe)
        assert severity is not Severity.OK or probe.outcome is ProbeOutcome.OK
