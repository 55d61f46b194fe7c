"""Disruption budgets: which apply, which counts, and what is told when one bites."""

import pytest
from tests.kit.fleets import Scaler, pool, serving

from gpuherd.errors import ConfigInvalid
from gpuherd.names import PoolName
from gpuherd.settings import parse
from gpuherd_autoscaler.disruption import Disruption, Reason, budget
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.settings import ScalerSettings

TWENTY = pool(20, leaving_max=8)


@pytest.mark.parametrize(
    ("disruption", "windows", "nodes"),
    [
        pytest.param(Disruption(leaving_max=3), (), 3, id="a count"),
        pytest.param(Disruption(leaving_percent=10.0), (), 2, id="a share"),
        pytest.param(Disruption(leaving_percent=11.0), (), 3, id="a share is rounded up"),
        pytest.param(Disruption(leaving_percent=0.0), (), 0, id="no share"),
        pytest.param(Disruption(leaving_max=99), (), 8, id="never more than the pool's own"),
        pytest.param(Disruption(leaving_max=0, pools=(PoolName("other"),)), (), 8, id="another pool"),
        pytest.param(Disruption(leaving_max=0, pools=(TWENTY.name,)), (), 0, id="this pool"),
        pytest.param(Disruption(leaving_max=0, reasons=(Reason.ABOVE_MAX,)), (), 8, id="another reason"),
        pytest.param(Disruption(leaving_max=0, reasons=(Reason.IDLE,)), (), 0, id="this reason"),
        pytest.param(Disruption(leaving_max=0, window="day"), (), 8, id="window shut"),
        pytest.param(Disruption(leaving_max=0, window="day"), ("day",), 0, id="window open"),
        pytest.param(Disruption(leaving_max=0, window="day"), None, 0, id="window not known"),
    ],
)
def test_what_a_budget_allows(disruption: Disruption, windows: tuple[str, ...] | None, nodes: int) -> None:
    assert budget(TWENTY, Reason.IDLE, [disruption], windows).nodes == nodes


def test_of_several_the_most_restrictive_counts() -> None:
    found = budget(TWENTY, Reason.IDLE, [Disruption(leaving_max=5), Disruption(leaving_max=2)], ())
    assert (found.nodes, found.rule) == (2, "disruption")


def test_idle_nodes_stay_while_the_window_is_open_and_go_when_it_shuts() -> None:
    by_day = Disruption(leaving_max=0, window="day", reasons=(Reason.IDLE,))
    scaler = Scaler(bounds=Limits(pools=(pool(3, leaving_max=3),), disruptions=(by_day,)))
    nodes = [serving(f"n-{i}") for i in range(1, 4)]
    plan = scaler.look_for(700.0, nodes, windows=("day",))
    assert plan.release == ()
    words = "a disruption budget lets 0 of its pool go at once while window day is open"
    assert plan.kept == dict.fromkeys(("n-1", "n-2", "n-3"), f"idle, and {words}")
    assert [(r.rule, r.figure) for r in plan.refusals] == [("disruption", 0.0)]
    assert scaler.look(nodes).release == ("n-1", "n-2", "n-3")


@pytest.mark.parametrize(
    ("table", "key"),
    [
        pytest.param({}, "disruption[0].leaving_max", id="no bound"),
        pytest.param(
            {"leaving_max": 1, "leaving_percent": 5.0}, "disruption[0].leaving_max", id="both bounds"
        ),
        pytest.param({"leaving_max": -1}, "disruption[0].leaving_max", id="negative"),
        pytest.param({"leaving_percent": 101.0}, "disruption[0].leaving_percent", id="more than all"),
        pytest.param({"leaving_max": 1, "pools": ["zzz"]}, "disruption[0].pools", id="no such pool"),
        pytest.param({"leaving_max": 1, "window": "zzz"}, "disruption[0].window", id="no such window"),
        pytest.param({"leaving_max": 1, "reasons": ["zzz"]}, "disruption[0].reasons", id="no such reason"),
    ],
)
def test_a_budget_that_cannot_be_is_told_with_its_key(table: dict[str, object], key: str) -> None:
    whole = {
        "cluster": "lab",
        "insecure": True,
        "head": {"addresses": ["h:1"]},
        "pool": [{"name": "a", "nodes": ["n-1"]}],
        "disruption": [table],
    }
    with pytest.raises(ConfigInvalid) as refusal:
        parse(ScalerSettings, whole, read_secret=lambda _: "")
    assert any(found.startswith(key) for found in dict(refusal.value.problems))
