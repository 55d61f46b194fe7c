"""What keeps a draining node from being empty, in words."""

from dataclasses import replace

import pytest
from tests.kit.node import ray_node

from gpuherd_agent.blockers import MOST, blockers

GROUP = "a1b2c3d4e5f60718"


@pytest.mark.parametrize(
    ("titles", "told"),
    [
        ([], ()),
        (["ray::train"], ("task train",)),
        (["ray::train", "ray::train"], ("task train x2",)),
        (["ray::Trainer"], ("actor Trainer",)),
        (["ray::Trainer.fit"], ("actor Trainer in fit",)),
        (["ray::train()", "ray::Trainer.__init__"], ("actor Trainer in __init__", "task train")),
    ],
)
def test_workers_are_named_by_their_titles(titles: list[str], told: tuple[str, ...]) -> None:
    assert blockers(None, titles) == told


def test_placement_groups_and_objects_are_told_by_the_head() -> None:
    node = replace(
        ray_node(),
        total={
            "GPU": 8.0,
            f"bundle_group_{GROUP}": 1000.0,
            f"bundle_group_0_{GROUP}": 1000.0,
            f"GPU_group_{GROUP}": 2.0,
            "object_store_memory": 80 * 2.0**20,
        },
        available={"object_store_memory": 70 * 2.0**20},
    )
    assert blockers(node, []) == (f"placement group {GROUP[:12]}", "objects, 10 MiB")


def test_an_empty_node_has_none() -> None:
    node = replace(ray_node(), total={"object_store_memory": 8.0}, available={"object_store_memory": 8.0})
    assert blockers(node, []) == ()


def test_of_many_the_first_are_named_and_the_rest_is_counted() -> None:
    told = blockers(None, [f"ray::task_{i:03d}" for i in range(100)])
    assert len(told) == MOST + 1
    assert told[-1] == f"and {100 - MOST} more"
