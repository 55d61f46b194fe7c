"""Findings over time: raised by confirmation, cleared by patience, never by silence."""

import pytest
from tests.kit.readings import cycle, failed, gpu, look, uuid

from gpuherd.health import Action, Severity, Verdict
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.rules import dropout
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.verdict import Judge

WELL = cycle(*(gpu(i) for i in range(4)))
LOST = cycle(gpu(0), gpu(1), gpu(3), lost=[2])
HOT = cycle(gpu(0, core_celsius=93.0), gpu(1), gpu(2), gpu(3))
SHORT = cycle(gpu(0), gpu(1), gpu(3))
HUNG = failed(ProbeOutcome.DEADLINE, missed=2)


class Looks:
    """A judge that looks once a second."""

    def __init__(self, judge: Judge | None = None) -> None:
        self.judge = judge or Judge()
        self.seen = Sightings()
        self.at = 0.0

    def __call__(self, *probes: ProbeReading, every_s: float = 1.0) -> Verdict:
        verdict = Verdict()
        for probe in probes:
            self.at += every_s
            verdict = self.judge.step(look(probe, at=self.at, declared=4, before=self.seen))
        return verdict


def test_before_the_first_reading_health_is_unknown() -> None:
    assert Looks()(failed(ProbeOutcome.STARTING)).severity is Severity.UNKNOWN


def test_a_host_that_is_well_is_ok() -> None:
    assert Looks()(WELL) == Verdict(severity=Severity.OK)


def test_a_lost_gpu_waits_for_one_more_look_and_then_evicts() -> None:
    looks = Looks()
    looks(WELL)
    assert looks(LOST).action is Action.NONE
    assert looks.judge.pending
    verdict = looks(LOST)
    assert (verdict.action, verdict.findings[0].gpu) == (Action.EVICT, uuid(2))
    assert not looks.judge.pending


def test_one_bad_look_between_good_ones_raises_nothing() -> None:
    looks = Looks()
    for _ in range(20):
        assert looks(WELL, LOST).action is Action.NONE


def test_a_lost_gpu_stays_lost_until_a_person_says_so() -> None:
    looks = Looks()
    looks(WELL, LOST, LOST)
    assert looks(*[WELL] * 50).action is Action.EVICT
    assert looks.judge.acknowledge(dropout.LOST, uuid(2))
    assert looks(WELL).severity is Severity.OK
    assert not looks.judge.acknowledge(dropout.LOST, uuid(2))


def test_what_is_acknowledged_and_still_so_comes_back() -> None:
    looks = Looks()
    looks(WELL, LOST, LOST)
    looks.judge.acknowledge(dropout.LOST, uuid(2))
    assert looks(LOST, LOST).action is Action.EVICT


def test_a_latched_finding_survives_a_restart() -> None:
    looks = Looks()
    looks(WELL, LOST, LOST)
    again = Looks(Judge(latched=looks.judge.latched))
    assert again(failed(ProbeOutcome.STARTING)).action is Action.EVICT
    assert again(WELL).action is Action.EVICT


def test_a_count_that_is_right_again_clears_after_three_looks() -> None:
    looks = Looks()
    assert looks(WELL, SHORT, SHORT).action is Action.EVICT
    assert looks(WELL, WELL).action is Action.EVICT
    assert looks(WELL).severity is Severity.OK


def test_a_relapse_starts_the_patience_anew() -> None:
    looks = Looks()
    looks(WELL, SHORT, SHORT, WELL, WELL)
    assert looks(SHORT).action is Action.EVICT
    assert looks(WELL, WELL).action is Action.EVICT


@pytest.mark.parametrize("outcome", [ProbeOutcome.STARTING, ProbeOutcome.CHILD_DIED, ProbeOutcome.DEADLINE])
def test_a_look_that_read_nothing_clears_nothing(outcome: ProbeOutcome) -> None:
    looks = Looks()
    looks(WELL, SHORT, SHORT)
    assert looks(*[failed(outcome, missed=1)] * 20).action is Action.EVICT


def test_a_gpu_that_is_not_there_clears_nothing_of_itself() -> None:
    looks = Looks()
    looks(WELL, *[HOT] * 3)
    without = cycle(gpu(1), gpu(2), gpu(3), lost=[0])
    assert "temperature_core" in {f.rule for f in looks(*[without] * 400).findings}


def test_a_rule_that_observes_is_told_and_does_not_act() -> None:
    looks = Looks()
    verdict = looks(WELL, *[HOT] * 3)
    assert (verdict.severity, verdict.action) == (Severity.CRITICAL, Action.WATCH)


def test_heat_needs_three_of_five_looks_and_five_quiet_minutes() -> None:
    looks = Looks()
    assert looks(WELL, HOT, WELL, HOT, WELL).severity is Severity.OK
    assert looks(HOT, WELL, HOT).severity is Severity.CRITICAL
    assert looks(*[WELL] * 300).severity is Severity.CRITICAL
    assert looks(WELL).severity is Severity.OK


def test_a_hung_driver_is_the_one_cause_and_clears_after_three_answers() -> None:
    looks = Looks()
    looks(WELL, SHORT, SHORT)
    verdict = looks(HUNG)
    assert [f.rule for f in verdict.findings] == ["driver_hung"]
    assert looks(WELL, WELL).action is Action.EVICT
    assert looks(WELL).severity is Severity.OK


def test_an_agent_that_probes_anew_knows_less_and_says_so() -> None:
    looks = Looks()
    looks(WELL)
    assert looks(failed(ProbeOutcome.CHILD_DIED)).severity is Severity.UNKNOWN
    assert looks(WELL).severity is Severity.OK


def test_a_host_without_gpus_is_ok_without_a_driver() -> None:
    probe = failed(ProbeOutcome.NO_DRIVER, code=12)
    assert Judge().step(look(probe, declared=0)).severity is Severity.OK
