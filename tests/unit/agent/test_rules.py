"""Each rule at its boundaries: what it raises, and when it stays silent."""

import math
import re
from pathlib import Path

import pytest
from tests.kit.readings import GIB, cycle, failed, gpu, look, uuid

from gpuherd.health import Action, Finding, Severity
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.rules import counts, driver, dropout, ecc, kernel, memory, remap, site_check, temperature
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.sightings import Sightings

ROOT = Path(__file__).parents[3]


def actions(findings: list[Finding]) -> list[Action]:
    return [f.action for f in findings]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"core_celsius": 83.9}, [], id="just outside the watch band"),
        pytest.param({"core_celsius": 84.0}, [Action.WATCH], id="on the watch edge"),
        pytest.param({"core_celsius": 88.9}, [Action.WATCH], id="just below slowdown"),
        pytest.param({"core_celsius": 89.0}, [Action.DRAIN], id="at slowdown"),
        pytest.param({"core_celsius": 91.9}, [Action.DRAIN], id="just outside the shutdown band"),
        pytest.param({"core_celsius": 92.0}, [Action.EVICT], id="on the shutdown edge"),
        pytest.param({"core_celsius": None}, [], id="the board reports no temperature"),
        pytest.param(
            {"core_celsius": 99.0, "slowdown_celsius": None, "shutdown_celsius": None}, [], id="no thresholds"
        ),
        pytest.param({"core_celsius": 60.0, "margin_celsius": 0.0}, [Action.DRAIN], id="margin used up"),
        pytest.param({"core_celsius": 60.0, "margin_celsius": 5.0}, [Action.WATCH], id="margin in the band"),
        pytest.param({"core_celsius": 60.0, "margin_celsius": 5.1}, [], id="margin outside the band"),
        pytest.param({"core_celsius": 255.0}, [], id="a broken sensor is no heat"),
        pytest.param({"core_celsius": math.nan}, [], id="no number is no heat"),
    ],
)
def test_core_temperature_follows_the_drivers_thresholds(
    changed: dict[str, object], expected: list[Action]
) -> None:
    assert (
        actions(list(temperature.judge_core(look(cycle(gpu(**changed))), temperature.Limits()))) == expected
    )


@pytest.mark.parametrize(
    ("celsius", "raised"), [(95.0, False), (95.1, True), (255.0, False), (None, False)], ids=str
)
def test_memory_temperature_is_judged_by_the_boards_limit(celsius: float | None, raised: bool) -> None:
    found = list(temperature.judge_memory(look(cycle(gpu(memory_celsius=celsius))), temperature.Limits()))
    assert bool(found) is raised


@pytest.mark.parametrize(("celsius", "raised"), [(0.0, True), (255.0, True), (math.nan, True), (45.0, False)])
def test_a_temperature_that_cannot_be_true_is_unknown(celsius: float, raised: bool) -> None:
    found = list(temperature.judge_sensor(look(cycle(gpu(core_celsius=celsius))), temperature.Limits()))
    assert [f.severity for f in found] == ([Severity.UNKNOWN] if raised else [])


@pytest.mark.parametrize(
    ("first", "later", "raised"),
    [
        pytest.param(0, 0, False, id="none"),
        pytest.param(3, 3, False, id="errors from before the agent"),
        pytest.param(3, 4, True, id="one more"),
        pytest.param(3, None, False, id="not read"),
        pytest.param(None, 4, False, id="not read at first"),
        pytest.param(9, 0, False, id="the driver was loaded anew"),
    ],
)
def test_a_rise_of_uncorrected_errors_drains(first: int | None, later: int | None, raised: bool) -> None:
    seen = Sightings()
    look(cycle(gpu(ecc_uncorrected_volatile_total=first)), before=seen)
    found = list(ecc.judge(look(cycle(gpu(ecc_uncorrected_volatile_total=later)), before=seen), ecc.Limits()))
    assert actions(found) == ([Action.DRAIN] if raised else [])


def test_errors_after_a_driver_reload_count_from_zero() -> None:
    seen = Sightings()
    for count in (9, 0):
        look(cycle(gpu(ecc_uncorrected_volatile_total=count)), before=seen)
    assert list(ecc.judge(look(cycle(gpu(ecc_uncorrected_volatile_total=1)), before=seen), ecc.Limits()))


@pytest.mark.parametrize(
    ("changed", "raised"),
    [
        pytest.param({"used_bytes": GIB}, False, id="what is borne"),
        pytest.param({"used_bytes": GIB + 1}, True, id="more, and nobody holds it"),
        pytest.param({"used_bytes": 9 * GIB, "pids": (7,)}, False, id="held by a process"),
        pytest.param({"used_bytes": 9 * GIB, "pids": None}, False, id="processes not known"),
        pytest.param({"used_bytes": None}, False, id="not read"),
    ],
)
def test_memory_that_nobody_holds_is_leaked(changed: dict[str, object], raised: bool) -> None:
    assert bool(list(memory.judge_leaked(look(cycle(gpu(**changed))), memory.Limits()))) is raised


@pytest.mark.parametrize(("share", "raised"), [(1.0, False), (0.991, False), (0.98, True)])
def test_memory_that_shrank_is_told(share: float, raised: bool) -> None:
    seen = Sightings()
    look(cycle(gpu()), before=seen)
    found = memory.judge_shrunk(
        look(cycle(gpu(total_bytes=int(80 * GIB * share))), before=seen), memory.Limits()
    )
    assert bool(list(found)) is raised


def test_a_lost_gpu_is_named_by_its_own_error() -> None:
    (found,) = dropout.judge_lost(look(cycle(gpu(0), gpu(1, errors={"core_celsius": 15}))), dropout.Limits())
    assert (found.gpu, found.action) == (uuid(1), Action.EVICT)
    assert "00000000:01:00.0" in found.reason


def test_a_lost_handle_is_named_by_the_gpu_that_vanished() -> None:
    seen = Sightings()
    look(cycle(gpu(0), gpu(1), gpu(2)), before=seen)
    (found,) = dropout.judge_lost(look(cycle(gpu(0), gpu(2), lost=[1]), before=seen), dropout.Limits())
    assert found.gpu == uuid(1)


def test_a_lost_handle_is_named_with_its_address_of_before() -> None:
    seen = Sightings()
    look(cycle(gpu(0), gpu(1)), before=seen)
    (found,) = dropout.judge_lost(look(cycle(gpu(0), lost=[1]), before=seen), dropout.Limits())
    assert (
        found.reason
        == "GPU GPU-1 (00000000:01:00.0) is lost: it has fallen off the bus (no handle at index 1)"
    )


@pytest.mark.parametrize(
    ("later", "declared", "lost"),
    [
        pytest.param(cycle(gpu(0), gpu(2)), 3, [uuid(1)], id="one vanished"),
        pytest.param(cycle(gpu(0), gpu(2), gpu(3)), 3, [], id="a board was replaced"),
        pytest.param(cycle(gpu(0), gpu(2)), 2, [], id="as many as declared"),
        pytest.param(cycle(gpu(2), lost=[0]), 3, [uuid(0), uuid(1)], id="one without a handle, one vanished"),
        pytest.param(cycle(gpu(2), lost=[0], code=999), 2, [], id="without a handle for another reason"),
        pytest.param(cycle(counted=0), 3, [None], id="all vanished are one incident"),
        pytest.param(cycle(gpu(2, errors={"power_watts": 15}), lost=[0]), 3, [None], id="all in three ways"),
    ],
)
def test_a_gpu_seen_before_and_no_longer_counted_is_lost(
    later: ProbeReading, declared: int, lost: list[GpuUuid | None]
) -> None:
    seen = Sightings()
    look(cycle(gpu(0), gpu(1), gpu(2)), before=seen)
    found = list(dropout.judge_lost(look(later, declared=declared, before=seen), dropout.Limits()))
    assert [f.gpu for f in found] == lost


def test_the_only_gpu_of_a_host_is_lost_by_its_own_name() -> None:
    (found,) = dropout.judge_lost(look(cycle(gpu(0, errors={"core_celsius": 15}))), dropout.Limits())
    assert (found.gpu, dropout.is_of_all_gpus(found)) == (uuid(0), False)


def test_a_host_without_gpus_has_lost_none() -> None:
    assert not list(dropout.judge_lost(look(cycle()), dropout.Limits()))


def test_four_of_eight_lost_are_four_findings() -> None:
    seen = Sightings()
    look(cycle(*(gpu(i) for i in range(8))), before=seen)
    half = cycle(*(gpu(i) for i in range(4)), counted=4)
    found = list(dropout.judge_lost(look(half, declared=8, before=seen), dropout.Limits()))
    assert [f.gpu for f in found] == [uuid(i) for i in range(4, 8)]


def test_a_handle_that_wants_a_reset_is_a_reset_and_no_unknown_handle() -> None:
    seen = Sightings()
    look(cycle(gpu(0), gpu(1)), before=seen)
    snapshot = look(cycle(gpu(0), lost=[1], code=16), before=seen)
    assert [f.gpu for f in dropout.judge_reset(snapshot, dropout.Limits())] == [uuid(1)]
    assert not list(dropout.judge_handle(snapshot, dropout.Limits()))
    assert not list(dropout.judge_lost(snapshot, dropout.Limits()))


def test_a_lost_handle_of_a_gpu_never_seen_is_named_by_its_index() -> None:
    (found,) = dropout.judge_lost(look(cycle(gpu(0), lost=[1])), dropout.Limits())
    assert found.gpu is None
    assert "index 1" in found.reason
    assert not dropout.is_of_all_gpus(found)


def test_eight_gpus_lost_at_once_are_one_incident() -> None:
    (found,) = dropout.judge_lost(look(cycle(lost=range(8))), dropout.Limits())
    assert (found.gpu, found.action) == (None, Action.EVICT)
    assert "all 8" in found.reason


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        pytest.param(2, [], id="as declared"),
        pytest.param(3, [Action.EVICT], id="one fewer"),
        pytest.param(1, [Action.CORDON], id="one more"),
    ],
)
def test_other_than_the_declared_number_is_told(declared: int, expected: list[Action]) -> None:
    snapshot = look(cycle(gpu(0), gpu(1)), declared=declared)
    assert actions(list(dropout.judge_count(snapshot, dropout.Limits()))) == expected


@pytest.mark.parametrize(
    ("code", "action"),
    [(0, None), (1, Action.DRAIN), (2, Action.EVICT), (3, Action.CORDON), (99, Action.WATCH)],
)
def test_the_drivers_own_word_is_followed_and_an_unknown_one_never_acts(
    code: int, action: Action | None
) -> None:
    found = list(dropout.judge_recovery(look(cycle(gpu(recovery_action=code))), dropout.Limits()))
    assert actions(found) == ([] if action is None else [action])


def test_a_gpu_that_needs_a_reset_and_a_handle_that_fails_are_told() -> None:
    assert list(dropout.judge_reset(look(cycle(gpu(errors={"power_watts": 16}))), dropout.Limits()))
    assert list(dropout.judge_handle(look(cycle(gpu(), lost=[1], code=999)), dropout.Limits()))
    assert not list(dropout.judge_handle(look(cycle(gpu(), lost=[1], code=15)), dropout.Limits()))


@pytest.mark.parametrize(
    ("probe", "declared", "expected"),
    [
        pytest.param(
            failed(ProbeOutcome.DEADLINE, missed=1), 8, [Action.WATCH], id="one miss may be the host"
        ),
        pytest.param(failed(ProbeOutcome.DEADLINE, missed=2), 8, [Action.EVICT], id="two are the driver"),
        pytest.param(
            failed(ProbeOutcome.DEADLINE, missed=9), 0, [Action.WATCH], id="hung and no GPU declared"
        ),
        pytest.param(failed(ProbeOutcome.NO_DRIVER, code=9), 8, [Action.EVICT], id="no driver"),
        pytest.param(failed(ProbeOutcome.NO_DRIVER, code=9), 0, [], id="no driver and no GPU declared"),
        pytest.param(
            failed(ProbeOutcome.NO_DRIVER, code=18), 8, [Action.CORDON], id="upgraded, not reloaded"
        ),
        pytest.param(failed(ProbeOutcome.CHILD_DIED), 8, [Action.WATCH], id="our own child"),
        pytest.param(failed(ProbeOutcome.STARTING), 8, [], id="starting"),
    ],
)
def test_how_a_cycle_ends_is_judged(probe: ProbeReading, declared: int, expected: list[Action]) -> None:
    snapshot = look(probe, declared=declared)
    limits = driver.Limits()
    found = [
        *driver.judge_hung(snapshot, limits),
        *driver.judge_missing(snapshot, limits),
        *driver.judge_probe(snapshot, limits),
    ]
    assert actions(found) == expected


def test_no_rule_speaks_of_a_host_that_is_well_or_was_not_read() -> None:
    nothing = Snapshot(at=0.0, declared=8)
    well = look(cycle(*(gpu(i) for i in range(8))))
    for rule in RULES:
        assert not list(rule.judge(nothing, rule.limits)), rule.name
        assert not list(rule.judge(well, rule.limits)), rule.name


def test_only_the_short_list_acts_by_itself() -> None:
    acting = {rule.name for rule in RULES if rule.enforce} - {site_check.NAME}
    lost = {dropout.LOST, kernel.LOST}
    counted = {dropout.COUNT, counts.PCI}
    hung = {driver.HUNG, driver.GPU_HUNG}
    assert acting == {*hung, driver.MISSING, *lost, *counted, ecc.NAME, remap.FAILED}


HAZARDS = (
    *(f"D{n}" for n in range(1, 11)),
    *(f"T{n}" for n in range(1, 6)),
    *(f"C{n}" for n in range(1, 6)),
    *(f"M{n}" for n in range(1, 7)),
    *(f"E{n}" for n in range(1, 10)),
    *(f"N{n}" for n in range(1, 9)),
    *(f"P{n}" for n in range(1, 6)),
    *(f"H{n}" for n in range(1, 6)),
    *("X-application", "X-contained", "X-reset", "X-reboot", "X-inspect", "X-unknown", "X-switch"),
)
"""Every hazard that a GPU host is known to have, by the catalogue's ids."""


def test_every_hazard_has_a_rule_or_a_row_that_says_why_not() -> None:
    built = {hazard for rule in RULES for hazard in rule.covers}
    rows = re.findall(r"^\| ([A-Z][\w-]*) \|", (ROOT / "docs" / "not-built.md").read_text(), re.MULTILINE)
    assert built & set(rows) == set(), "a rule and a row"
    assert built | set(rows) == set(HAZARDS)


def test_every_rule_has_a_name_of_its_own_a_source_and_a_page() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source, rule.name
        assert 1 <= rule.raise_n <= rule.raise_m, rule.name
        assert (ROOT / "docs" / "runbook" / rule.runbook).is_file(), rule.runbook
