"""The ladder of repairs, its memory over reboots, and the guards of each step."""

from dataclasses import replace

import pytest
from tests.kit.node import GPUS

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd.phases import Phase
from gpuherd_agent.repair import (
    FORGOTTEN_AFTER_S,
    REBOOT_GAP_S,
    RECORDS_KEPT,
    Attempt,
    RepairFacts,
    Step,
    guards,
    next_step,
    remembered,
)

DAY = 86_400.0


def found(repair: Repair, rule: str = "ecc_uncorrected") -> Finding:
    return Finding(
        rule=rule, severity=Severity.CRITICAL, action=Action.DRAIN, reason="r", gpu=GPUS[0], repair=repair
    )


def tried(step: Step, *, ago_s: float = DAY, boot: str = "boot-1", rule: str = "ecc_uncorrected") -> Attempt:
    return Attempt(step=step, rule=rule, gpu=GPUS[0], wall=1e9 - ago_s, boot_id=boot)


@pytest.mark.parametrize(
    ("repair", "attempts", "step"),
    [
        pytest.param(Repair.RESET_GPU, [], Step.RESET_GPU, id="the hint"),
        pytest.param(Repair.RESET_GPU, [tried(Step.RESET_GPU)], Step.REBOOT, id="a reset did not help"),
        pytest.param(
            Repair.RESET_GPU, [tried(Step.REBOOT)], Step.RESET_GPU, id="a reboot of which there is no proof"
        ),
        pytest.param(
            Repair.RESET_GPU, [tried(Step.REBOOT, boot="boot-0")], Step.INSPECT, id="a reboot did not help"
        ),
        pytest.param(Repair.REBOOT, [tried(Step.RESET_GPU)], Step.REBOOT, id="a weaker one was tried"),
        pytest.param(Repair.REBOOT, [tried(Step.INSPECT)], Step.RMA, id="a person has looked"),
        pytest.param(Repair.RMA, [tried(Step.RMA)], Step.RMA, id="nothing is above the last"),
        pytest.param(
            Repair.RESET_GPU, [tried(Step.RESET_GPU, rule="other")], Step.RESET_GPU, id="another finding"
        ),
        pytest.param(
            Repair.RESET_GPU, [tried(Step.RESET_GPU, ago_s=FORGOTTEN_AFTER_S)], Step.RESET_GPU, id="long ago"
        ),
        pytest.param(Repair.APP, [], None, id="an application's error"),
        pytest.param(Repair.NONE, [], None, id="no repair"),
        pytest.param(Repair.IMEX, [], None, id="the fabric's daemon"),
    ],
)
def test_the_next_step_is_the_hint_or_one_above_what_did_not_help(
    repair: Repair, attempts: list[Attempt], step: Step | None
) -> None:
    assert next_step(found(repair), attempts, boot_id="boot-1", wall=1e9) is step


RECENT = tried(Step.REBOOT, ago_s=REBOOT_GAP_S - 1.0)
AHEAD = tried(Step.REBOOT, ago_s=-60.0)
GOOD = RepairFacts(
    phase=Phase.OUTSIDE,
    has_raylet=False,
    clients=0,
    foreign=0,
    logins=0,
    attempts=(),
    wall=1e9,
    allowed=frozenset({Step.RESET_GPU, Step.REBOOT}),
)


@pytest.mark.parametrize("step", [Step.RESET_GPU, Step.REBOOT])
def test_a_drained_host_without_clients_or_logins_is_repaired(step: Step) -> None:
    assert guards(step, GOOD).passed


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        pytest.param({"allowed": frozenset()}, "allowed", id="off by default"),
        pytest.param({"phase": Phase.MEMBER}, "drained", id="a member"),
        pytest.param({"phase": Phase.DRAINING}, "drained", id="draining"),
        pytest.param({"has_raylet": True}, "drained", id="a raylet is left"),
        pytest.param({"clients": 1}, "clients", id="a client"),
        pytest.param({"clients": None}, "clients", id="clients not known"),
        pytest.param({"foreign": 2}, "foreign", id="a foreign process"),
        pytest.param({"foreign": None}, "foreign", id="processes not known"),
        pytest.param({"logins": 1}, "logins", id="a person"),
        pytest.param({"logins": None}, "logins", id="logins not known"),
        pytest.param({"attempts": (RECENT,)}, "reboot_rate", id="too soon"),
        pytest.param({"attempts": (AHEAD,)}, "reboot_rate", id="the clock went back"),
    ],
)
def test_each_guard_refuses_alone_and_says_how_to_mend_it(changed: dict[str, object], code: str) -> None:
    report = guards(Step.REBOOT, replace(GOOD, **changed))  # type: ignore[arg-type]  # names of RepairFacts
    assert [check.code for check in report.refusals] == [code]
    assert report.refusals[0].mend


def test_a_reset_is_not_bound_by_the_rate_of_reboots() -> None:
    assert guards(Step.RESET_GPU, replace(GOOD, attempts=(tried(Step.REBOOT, ago_s=60.0),))).passed


@pytest.mark.parametrize("step", [Step.INSPECT, Step.RMA])
def test_what_only_a_person_can_do_is_never_a_machines(step: Step) -> None:
    assert [check.code for check in guards(step, GOOD).refusals] == ["step"]


def test_the_record_of_attempts_is_bounded() -> None:
    attempts: tuple[Attempt, ...] = ()
    for _ in range(RECORDS_KEPT + 5):
        attempts = remembered(attempts, tried(Step.RESET_GPU))
    assert len(attempts) == RECORDS_KEPT
