"""The grammar of names and of node ranges."""

import pytest

from gpuherd.names import MAX_NODES, NameInvalid, expand_nodes, parse_node


@pytest.mark.parametrize("text", ["a", "gpu-1", "0", "a" * 63, "x-9-y"])
def test_a_dns_label_is_a_name(text: str) -> None:
    assert parse_node(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "a+b", "#", "a" * 64, "a\n", "ä", "a b", "a\x00"],
)
def test_anything_else_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(NameInvalid, match="a-z, 0-9"):
        parse_node(text)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        pytest.param(["gpu-1"], ("gpu-1",), id="plain"),
        pytest.param(["gpu-[001-003]"], ("gpu-001", "gpu-002", "gpu-003"), id="width kept"),
        pytest.param(["n[1,3-4]"], ("n1", "n3", "n4"), id="list and span"),
        pytest.param(["r[1-2]-n[1-2]"], ("r1-n1", "r1-n2", "r2-n1", "r2-n2"), id="two brackets"),
        pytest.param(["a", "a", "[1-1]"], ("a", "1"), id="each once"),
    ],
)
def test_a_range_stands_for_its_names_in_order(patterns: list[str], names: tuple[str, ...]) -> None:
    assert expand_nodes(patterns) == names


@pytest.mark.parametrize(
    "pattern", ["n[3-1]", "n[]", "n[a-b]", "n[1-", "n[-5]", "n[1--2]", "N[1-2]", "n[1-2]_"]
)
def test_a_bad_range_is_refused(pattern: str) -> None:
    with pytest.raises(NameInvalid):
        expand_nodes([pattern])


def test_a_range_without_bound_ends_at_the_cap() -> None:
    with pytest.raises(NameInvalid, match=str(MAX_NODES)):
        expand_nodes(["n[0-999999999]"])
