"""Pool settings: defaults that never shrink an unset pool, and every problem with its key."""

import pytest

from gpuherd.errors import ConfigInvalid
from gpuherd.names import PoolName
from gpuherd.settings import parse
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.pools import Pool, pool_problems


def problems(*pools: dict[str, object]) -> dict[str, str]:
    try:
        made = parse(Limits, {"pools": list(pools)}, read_secret=lambda _: "")
    except ConfigInvalid as error:
        return dict(error.problems)
    return dict(pool_problems(made.pools, "pools"))


def test_an_unset_pool_has_all_its_listed_nodes_as_min_and_max() -> None:
    made = Pool(name=PoolName("a"), nodes=("gpu-[001-030]",))
    assert (made.floor, made.ceiling, made.leaving_budget) == (30, 30, 3)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        pytest.param({"name": "A!", "nodes": ["n"]}, "pools[0].name", id="name outside the grammar"),
        pytest.param({"name": "a", "nodes": []}, "pools[0].nodes", id="no node"),
        pytest.param({"name": "a", "nodes": ["n-[3-1]"]}, "pools[0].nodes", id="range backwards"),
        pytest.param({"name": "a", "nodes": ["n"], "min": 2, "max": 1}, "pools[0].min", id="min above max"),
        pytest.param({"name": "a", "nodes": ["n-[1-3]"], "max": 1}, "pools[0].min", id="max below unset min"),
        pytest.param({"name": "a", "nodes": ["n"], "min": -1}, "pools[0].min", id="negative min"),
        pytest.param({"name": "a", "nodes": ["n"], "max": 2}, "pools[0].max", id="max above the listed"),
        pytest.param({"name": "a", "nodes": ["n"], "warm_spares": -1}, "pools[0].warm_spares", id="spares"),
        pytest.param(
            {"name": "a", "nodes": ["n"], "idle_timeout_s": -1.0}, "pools[0].idle_timeout_s", id="idle"
        ),
        pytest.param({"name": "a", "nodes": ["n"], "leaving_max": 0}, "pools[0].leaving_max", id="no exit"),
        pytest.param(
            {"name": "a", "nodes": ["n"], "resources": {"GPU": 1.0}}, "pools[0].resources.GPU", id="GPU"
        ),
        pytest.param(
            {"name": "a", "nodes": ["n"], "gpu_per_node": 1}, "pools[0].gpu_per_node", id="unknown key"
        ),
    ],
)
def test_each_problem_is_told_with_its_key(table: dict[str, object], key: str) -> None:
    assert key in problems(table)


def test_a_node_or_a_name_given_twice_is_told_with_the_other_place() -> None:
    found = problems({"name": "a", "nodes": ["n-[1-3]"]}, {"name": "a", "nodes": ["n-[3-4]"]})
    assert found["pools[1].nodes"] == "n-3 listed in pools[0] already"
    assert found["pools[1].name"] == "'a' is the name of pools[0] too"


def test_no_pool_at_all_is_a_problem_and_a_sound_one_is_none() -> None:
    assert dict(pool_problems((), "pool")) == {"pool": "is missing: list the nodes in at least one [[pool]]"}
    assert problems({"name": "a", "nodes": ["n-[1-3]"], "min": 0, "resources": {"memory": 1e9}}) == {}
