"""Shrinking: idleness by every witness, the bounds, the order of victims, and what each node is told."""

from dataclasses import replace

import pytest
from tests.kit.fleets import (
    IDLE_WITNESS,
    Scaler,
    booting,
    gpus,
    hold,
    limits,
    pool,
    ray_node,
    serving,
    sick,
    standby,
)

from gpuherd.health import Severity
from gpuherd.phases import Lifecycle, Phase
from gpuherd.wire.documents import Witness
from gpuherd_autoscaler.snapshot import Freshness

TIMEOUT_S = 600.0


def test_an_idle_node_goes_once_its_own_clock_has_run() -> None:
    scaler = Scaler()
    plan = scaler.look_for(TIMEOUT_S - 5, [serving("n-1")])
    assert (plan.release, plan.kept) == ((), {"n-1": "idle for 595 of 600 s"})
    plan = scaler.look([serving("n-1")])
    assert plan.release == ("n-1",)
    assert plan.reasons == {"n-1": "idle for 600 s, no pending demand fits it"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({"age_s": 16.0}, "its own word is older than 15 s", id="old witness"),
        pytest.param({"age_s": None}, "", id="no word at all"),
        pytest.param({"witness": Witness()}, "does not say", id="no witness"),
        pytest.param({"witness": Witness(ray_workers=0)}, "does not say", id="half a witness"),
        pytest.param(
            {"witness": Witness(ray_workers=1, foreign_gpu_processes=0)},
            "1 Ray workers",
            id="a worker without CPU",
        ),
        pytest.param(
            {"witness": Witness(ray_workers=0, foreign_gpu_processes=2)},
            "2 foreign",
            id="a stranger on a GPU",
        ),
        pytest.param({"ray": ray_node("n-1", status="running")}, "Ray says running", id="Ray says busy"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_proven_idle_stays_and_starts_its_clock_anew(
    changed: dict[str, object], why: str
) -> None:
    scaler = Scaler()
    plan = scaler.look_for(2 * TIMEOUT_S, [serving("n-1", **changed)])
    assert plan.release == ()
    assert why in plan.kept["n-1"]
    scaler = Scaler()
    scaler.look_for(TIMEOUT_S - 10, [serving("n-1")])
    scaler.look([serving("n-1", **changed)])
    assert scaler.look_for(100, [serving("n-1")]).release == ()


def test_a_gap_between_looks_starts_the_clocks_anew() -> None:
    scaler = Scaler()
    scaler.look_for(TIMEOUT_S - 10, [serving("n-1")])
    scaler.now += 31.0
    assert scaler.look([serving("n-1")]).release == ()


@pytest.mark.parametrize("head", [Freshness.STALE, Freshness.FAILED])
def test_missing_data_of_the_head_never_shrinks(head: Freshness) -> None:
    scaler = Scaler()
    scaler.look_for(TIMEOUT_S - 10, [serving("n-1")])
    plan = scaler.look_for(2 * TIMEOUT_S, [serving("n-1")], freshness=head)
    assert plan.release == ()
    assert plan.frozen == "frozen: Ray's head tells nothing of the present"


def test_min_is_a_floor_of_healthy_serving_nodes() -> None:
    scaler = Scaler(bounds=limits(pool(4, min=1)))
    nodes = [serving("n-1"), booting("n-2"), sick("n-3", ray=ray_node("n-3"), phase=Phase.MEMBER)]
    plan = scaler.look_for(150 + TIMEOUT_S, nodes)
    assert "n-1" not in plan.release
    assert plan.kept["n-1"] == "idle, and its pool would fall below its min of 1"


def test_an_unset_pool_is_never_shrunk() -> None:
    plan = Scaler(bounds=limits(pool(2, min=None, max=None))).look_for(
        2_000, [serving("n-1"), serving("n-2")]
    )
    assert plan.release == ()


def test_one_node_of_a_small_pool_leaves_at_a_time() -> None:
    scaler, nodes = Scaler(), [serving("n-1"), serving("n-2")]
    plan = scaler.look_for(TIMEOUT_S, nodes)
    assert plan.release == ("n-1",)
    assert [r.rule for r in plan.refusals] == ["budget"]
    leaving = serving("n-1", serve=False, phase=Phase.DRAINING, lifecycle=Lifecycle.DRAINING)
    assert scaler.look([leaving, nodes[1]]).release == ()
    assert scaler.look([standby("n-1"), nodes[1]]).release == ("n-2",)


def test_the_bound_of_leaving_nodes_is_a_setting() -> None:
    scaler = Scaler(bounds=limits(pool(4, leaving_max=3)))
    plan = scaler.look_for(TIMEOUT_S, [serving(f"n-{i}") for i in range(1, 5)])
    assert plan.release == ("n-1", "n-2", "n-3")


def test_the_unhealthy_go_first_then_the_longest_idle_then_by_name() -> None:
    scaler = Scaler(bounds=limits(pool(4, min=3)))
    busy = serving("n-1", free=1.0)
    scaler.look_for(100, [busy, serving("n-2"), serving("n-3"), serving("n-4")])
    everyone = [serving("n-1"), serving("n-2"), serving("n-3"), serving("n-4")]
    scaler.look_for(TIMEOUT_S, everyone)
    assert scaler.look(everyone).release == ("n-2",)
    everyone[3] = serving("n-4", severity=Severity.DEGRADED)
    assert scaler.look(everyone).release == ("n-4",)


def test_pending_demand_that_fits_an_idle_node_keeps_it() -> None:
    scaler = Scaler()
    plan = scaler.look_for(TIMEOUT_S, [serving("n-1")])
    assert plan.release == ("n-1",)
    plan = scaler.look([serving("n-1")], [gpus(1)])
    assert plan.release == ()
    assert plan.kept["n-1"] == "idle, and pending 1 x {GPU: 1} would fit on it"
    assert scaler.look([serving("n-1")], [gpus(16)]).release == ("n-1",)


def test_a_victim_that_has_not_drained_is_unchosen_when_demand_returns() -> None:
    scaler = Scaler()
    released = serving("n-1", serve=False)
    assert scaler.look([released, standby("n-2")], [gpus(1)]).serve == ("n-1",)


def test_a_pool_that_turned_a_node_on_cools_down() -> None:
    scaler = Scaler(bounds=limits(pool(2, cooldown_s=60.0)))
    scaler.look_for(TIMEOUT_S - 10, [serving("n-1"), standby("n-2")])
    nodes = [serving("n-1"), serving("n-2", free=0.0)]
    plan = scaler.look_for(50, nodes)
    assert (plan.release, "grew lately" in plan.kept["n-1"]) == ((), True)
    assert scaler.look_for(15, nodes).release == ("n-1",)


def test_warm_spares_are_not_released() -> None:
    scaler = Scaler(bounds=limits(pool(2, warm_spares=1, leaving_max=2)))
    plan = scaler.look_for(TIMEOUT_S, [serving("n-1"), serving("n-2")])
    assert plan.release == ("n-1",)
    assert plan.kept["n-2"] == "idle, kept as one of 1 warm spares"


def test_above_max_idle_nodes_go_without_their_time_out() -> None:
    scaler = Scaler(bounds=limits(pool(3, max=1)))
    assert scaler.look_for(10, [serving("n-1"), serving("n-2")]).release == ("n-1",)


def test_a_sick_node_outside_is_asked_no_longer_when_it_is_not_needed() -> None:
    scaler = Scaler()
    plan = scaler.look_for(TIMEOUT_S + 60, [serving("n-1", free=0.0), sick("n-2")])
    assert plan.release == ("n-2",)
    assert plan.reasons["n-2"].startswith("outside, held by health: gpu lost; not needed now")


def test_a_person_who_holds_a_node_of_a_full_pool_gets_it_back() -> None:
    scaler = Scaler(bounds=limits(pool(2, min=2)))
    held = standby("n-2", serve=True, holds=(hold("user:bob", "disk"),))
    plan = scaler.look_for(2 * TIMEOUT_S, [serving("n-1"), held])
    assert plan.release == ()
    assert "held by user:bob: disk" in plan.kept["n-2"]


def test_a_stale_node_is_no_victim() -> None:
    scaler = Scaler(bounds=limits(pool(3, leaving_max=3)))
    gone = replace(serving("n-1"), age_s=40.0, witness=IDLE_WITNESS)
    assert "n-1" not in scaler.look_for(2 * TIMEOUT_S, [gone, serving("n-2"), serving("n-3")]).release
