"""Racks: where hosts stand, and every problem with its key."""

import pytest

from gpuherd.errors import ConfigInvalid
from gpuherd.settings import parse
from gpuherd_autoscaler.racks import Rack, racks_of
from gpuherd_autoscaler.settings import ScalerSettings

SOUND: dict[str, object] = {
    "cluster": "lab",
    "insecure": True,
    "head": {"addresses": ["h:1"]},
    "pool": [{"name": "a", "nodes": ["n-[1-4]"]}],
}


def problems(*racks: dict[str, object]) -> dict[str, str]:
    try:
        parse(ScalerSettings, {**SOUND, "rack": list(racks)}, read_secret=lambda _: "")
    except ConfigInvalid as error:
        return dict(error.problems)
    return {}


def test_each_listed_host_has_its_rack() -> None:
    racks = (Rack(name="east", nodes=("n-[1-2]",)), Rack(name="west", nodes=("n-3",)))
    assert racks_of(racks) == {"n-1": "east", "n-2": "east", "n-3": "west"}


@pytest.mark.parametrize(
    ("racks", "key", "words"),
    [
        pytest.param([{"name": "A!", "nodes": ["n-1"]}], "rack[0].name", "rack name", id="name"),
        pytest.param([{"name": "r", "nodes": []}], "rack[0].nodes", "names no node", id="no host"),
        pytest.param([{"name": "r", "nodes": ["n-[3-1]"]}], "rack[0].nodes", "n-[3-1]", id="range backwards"),
        pytest.param([{"name": "r", "nodes": ["x-1"]}], "rack[0].nodes", "in no [[pool]]", id="of no pool"),
        pytest.param(
            [{"name": "r", "nodes": ["n-1"]}, {"name": "s", "nodes": ["n-1"]}],
            "rack[1].nodes",
            "stands in rack[0] already",
            id="one host in two racks",
        ),
        pytest.param(
            [{"name": "r", "nodes": ["n-1"]}, {"name": "r", "nodes": ["n-2"]}],
            "rack[1].name",
            "the name of rack[0] too",
            id="one name twice",
        ),
    ],
)
def test_each_problem_is_told_with_its_key(racks: list[dict[str, object]], key: str, words: str) -> None:
    assert words in problems(*racks)[key]


def test_sound_racks_and_none_at_all_are_no_problem() -> None:
    assert problems() == {}
    assert problems({"name": "r", "nodes": ["n-[1-2]"]}) == {}
