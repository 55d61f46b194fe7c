"""What a site's check says, by exit code or JSON, and what may come of it."""

import pytest
from tests.kit.readings import cycle, gpu, look

from gpuherd.health import Action, Severity
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.site_result import REASON_MAX, SiteReading, Status, read
from gpuherd_agent.verdict import Judge


@pytest.mark.parametrize(
    ("code", "output", "status", "action", "reason"),
    [
        (0, "mounted", Status.OK, Action.NONE, "mounted"),
        (1, "slow\nvery", Status.WARN, Action.WATCH, "slow"),
        (2, "not mounted", Status.CRITICAL, Action.CORDON, "not mounted"),
        (3, "", Status.UNKNOWN, Action.WATCH, "exit code 3"),
        (127, "", Status.UNKNOWN, Action.WATCH, "exit code 127"),
        (-9, "", Status.UNKNOWN, Action.WATCH, "exit code -9"),
        (0, '{"status": "critical", "reason": "no IB"}', Status.CRITICAL, Action.CORDON, "no IB"),
        (2, '{"reason": "no IB", "action": "drain"}', Status.CRITICAL, Action.DRAIN, "no IB"),
        (2, '{"action": "evict"}', Status.CRITICAL, Action.DRAIN, "exit code 2"),
        (2, '{"status": "ok"}', Status.CRITICAL, Action.CORDON, "exit code 2"),
        (0, '{"status": "ok", "action": "drain"}', Status.OK, Action.NONE, "exit code 0"),
        (0, '{"status": "splendid"}', Status.UNKNOWN, Action.WATCH, "its JSON is not understood"),
        (0, "{" * 5_000, Status.UNKNOWN, Action.WATCH, "its JSON is not understood"),
        (0, '{"a": NaN}', Status.UNKNOWN, Action.WATCH, "its JSON is not understood"),
        (None, "cannot be started", Status.UNKNOWN, Action.WATCH, "cannot be started"),
    ],
)
def test_the_word_of_a_check_is_bounded_and_the_worse_of_two_counts(
    code: int | None, output: str, status: Status, action: Action, reason: str
) -> None:
    reading = read("mount", code, output, enforce=True)
    assert (reading.status, reading.action, reading.reason) == (status, action, reason)


def test_without_enforce_nothing_stronger_than_a_watch_comes_of_it() -> None:
    assert read("mount", 2, "").action is Action.WATCH
    assert read("mount", 2, '{"action": "drain"}').action is Action.WATCH


@pytest.mark.parametrize(("given", "is_named"), [("GPU-3", True), ("3", False), ("GPU-" + "x" * 99, False)])
def test_only_a_uuid_names_a_gpu(given: str, is_named: bool) -> None:
    assert (read("dcgm", 2, f'{{"gpu": "{given}"}}').gpu is not None) is is_named


def test_a_long_reason_is_cut() -> None:
    assert len(read("mount", 1, "x" * 4_000).reason) == REASON_MAX


def seen(*readings: SiteReading, at: float) -> Snapshot:
    return Snapshot(at=at, declared=1, probe=cycle(gpu(0)), known=look(cycle(gpu(0))).known, checks=readings)


def test_each_check_is_a_finding_of_its_own_that_ends_with_its_next_good_word() -> None:
    judge = Judge()
    bad = (read("disk", 2, "full", enforce=True), read("mount", 1, "slow"))
    verdict = judge.step(seen(*bad, at=1.0))
    assert [(f.rule, f.severity, f.action) for f in verdict.findings] == [
        ("site_check:disk", Severity.CRITICAL, Action.CORDON),
        ("site_check:mount", Severity.WARN, Action.WATCH),
    ]
    assert verdict.findings[0].reason == "check disk: full"
    verdict = judge.step(seen(read("disk", 0, ""), read("mount", 1, "slow"), at=2.0))
    assert [f.rule for f in verdict.findings] == ["site_check:mount"]
    assert judge.step(seen(at=3.0)).findings == ()
