"""Findings over time: raised by confirmation, cleared by patience, never by silence."""

from dataclasses import replace

import pytest
from tests.kit.readings import GIB, cycle, failed, gpu, look, uuid

from gpuherd.health import Action, Finding, Severity, Verdict
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.rules import dropout
from gpuherd_agent.rules.catalog import RULES
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


def test_what_comes_and_goes_is_held_longer() -> None:
    looks = Looks()
    others = [gpu(i) for i in (1, 2, 3)]
    asked, well = cycle(gpu(0, recovery_action=3), *others), cycle(gpu(0), *others)
    for _ in range(3):
        assert looks(asked).action is Action.WATCH, "observed"
        last = looks(*[well] * 4)
    assert last.findings, "the third time it stays"
    assert looks(*[well] * 1_700).findings
    assert not looks(*[well] * 200).findings


def test_a_latched_finding_survives_a_restart() -> None:
    looks = Looks()
    looks(WELL, LOST, LOST)
    again = Looks(Judge(latched=looks.judge.latched))
    assert again(failed(ProbeOutcome.STARTING)).action is Action.EVICT
    assert again(WELL).action is Action.EVICT


def test_a_count_that_is_right_again_clears_after_three_looks() -> None:
    looks = Looks()
    assert looks(SHORT, SHORT).action is Action.EVICT
    assert looks(WELL, WELL).action is Action.EVICT
    assert looks(WELL).severity is Severity.OK


def test_a_relapse_starts_the_patience_anew() -> None:
    looks = Looks()
    looks(SHORT, SHORT, WELL, WELL)
    assert looks(SHORT).action is Action.EVICT
    assert looks(WELL, WELL).action is Action.EVICT


@pytest.mark.parametrize("outcome", [ProbeOutcome.STARTING, ProbeOutcome.CHILD_DIED, ProbeOutcome.DEADLINE])
def test_a_look_that_read_nothing_clears_nothing(outcome: ProbeOutcome) -> None:
    looks = Looks()
    looks(SHORT, SHORT)
    assert looks(*[failed(outcome, missed=1)] * 20).action is Action.EVICT


def test_a_gpu_that_is_not_there_clears_nothing_of_itself() -> None:
    looks = Looks()
    looks(WELL, *[HOT] * 3)
    without = cycle(gpu(1), gpu(2), gpu(3), lost=[0], code=999)
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
    looks(SHORT, SHORT)
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


def test_a_gpu_that_is_no_longer_counted_is_lost_and_stays_so_when_it_is_back() -> None:
    looks = Looks()
    looks(WELL, SHORT, SHORT)
    verdict = looks(*[WELL] * 20)
    assert [(f.rule, f.gpu) for f in verdict.findings] == [("gpu_lost", uuid(2))]
    assert looks.judge.acknowledge(dropout.LOST, uuid(2))
    assert looks(WELL).severity is Severity.OK


def test_all_gpus_lost_are_one_incident_whatever_else_stands() -> None:
    looks = Looks()
    hurt = cycle(gpu(0), gpu(1, ecc_uncorrected_volatile_total=3), gpu(2), gpu(3))
    assert looks(WELL, hurt).action is Action.DRAIN
    verdict = looks(*[cycle(counted=0)] * 2)
    assert [(f.rule, f.gpu) for f in verdict.findings] == [("gpu_lost", None)]
    assert {f.rule for f in looks.judge.latched} == {"gpu_lost", "ecc_uncorrected"}


@pytest.mark.parametrize(
    "unread",
    [
        pytest.param({"core_celsius": None, "errors": {"core_celsius": 999}}, id="the call failed"),
        pytest.param({"core_celsius": 255.0}, id="the sensor is broken"),
        pytest.param(
            {"core_celsius": 45.0, "slowdown_celsius": None, "shutdown_celsius": None},
            id="the thresholds are gone",
        ),
    ],
)
def test_a_reading_that_is_missing_on_a_present_gpu_clears_nothing(unread: dict[str, object]) -> None:
    looks = Looks()
    looks(WELL, *[HOT] * 3)
    blind = cycle(gpu(0, **unread), gpu(1), gpu(2), gpu(3))
    assert "temperature_core" in {f.rule for f in looks(*[blind] * 400).findings}
    assert looks(*[WELL] * 301).severity is Severity.OK


@pytest.mark.parametrize("outcome", [ProbeOutcome.CHILD_DIED, ProbeOutcome.STARTING], ids=str)
def test_only_an_answer_ends_a_hang(outcome: ProbeOutcome) -> None:
    looks = Looks()
    assert looks(HUNG, *[failed(outcome)] * 20).action is Action.EVICT


def test_an_answer_that_there_is_no_driver_ends_a_hang_and_stands_itself() -> None:
    looks = Looks()
    verdict = looks(HUNG, *[failed(ProbeOutcome.NO_DRIVER, code=9)] * 3)
    assert [f.rule for f in verdict.findings] == ["driver_missing"]


def test_an_old_failure_told_again_confirms_nothing() -> None:
    looks = Looks()
    missing = failed(ProbeOutcome.NO_DRIVER, code=9)
    again = replace(missing, is_repeat=True)
    assert looks(WELL, missing, *[again] * 20) == Verdict(severity=Severity.UNKNOWN)
    assert looks.judge.pending
    assert looks(missing).action is Action.EVICT
    assert looks(*[again] * 20).action is Action.EVICT


def test_a_missing_driver_ends_with_a_reading_and_not_with_a_hang() -> None:
    looks = Looks()
    looks(*[failed(ProbeOutcome.NO_DRIVER, code=9)] * 2)
    assert "driver_missing" in {f.rule for f in looks(*[HUNG] * 10).findings}
    assert looks(*[WELL] * 3).severity is Severity.OK


def test_a_suspicion_about_a_gpu_that_went_away_is_not_waited_for() -> None:
    looks = Looks()
    looks(WELL, cycle(gpu(0), gpu(1), gpu(2), gpu(3, errors={"power_watts": 15})))
    assert looks.judge.pending
    swapped = cycle(gpu(0), gpu(1), gpu(2), gpu(9))
    assert looks(swapped, swapped).severity is Severity.OK
    assert not looks.judge.pending


def test_a_child_that_died_once_is_no_fault_of_the_node() -> None:
    looks = Looks()
    looks(WELL)
    verdict = looks(failed(ProbeOutcome.CHILD_DIED))
    assert (verdict.severity, verdict.action, verdict.findings) == (Severity.UNKNOWN, Action.NONE, ())


def test_a_child_that_keeps_dying_is_told_and_leads_to_no_act() -> None:
    verdict = Looks()(*[failed(ProbeOutcome.CHILD_DIED)] * 3)
    assert (verdict.severity, verdict.action) == (Severity.WARN, Action.WATCH)


def test_a_latched_finding_of_a_rule_that_is_gone_is_dropped() -> None:
    stray = Finding(rule="no_such_rule", severity=Severity.CRITICAL, action=Action.EVICT, reason="old")
    assert Judge(latched=(stray,)).latched == ()


def test_a_rule_that_watches_for_a_minute_is_not_hurried_by_looking_sooner() -> None:
    slow = replace(next(r for r in RULES if r.name == "memory_leaked"), enforce=True)
    judge = Judge((slow,))
    judge.step(look(cycle(gpu(used_bytes=8 * GIB, pids=()))))
    assert not judge.pending
