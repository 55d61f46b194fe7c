"""docs/failures.md: every row names tests that exist."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from tests.kit.repository import ROOT, functions

PAGE: Final = ROOT / "docs" / "failures.md"
_HEADER: Final = ["fault", "expected behaviour", "test id"]


class Row(NamedTuple):
    fault: str
    behaviour: str
    tests: tuple[str, ...]


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells != _HEADER and not set(line) <= set("|- "):
            assert len(cells) == 3, line
            yield Row(cells[0], cells[1], tuple(re.findall(r"`([^`]+)`", cells[2])))


ROWS: Final = tuple(rows())


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) >= 30
    assert len({row.fault for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault[:60])
def test_a_fault_has_an_expectation_and_tests_that_exist(row: Row) -> None:
    assert row.behaviour
    assert row.tests, f"{row.fault}: no test"
    for test in row.tests:
        name, _, function = test.partition("::")
        file = ROOT / "tests" / name
        assert file.is_file(), f"{test}: no such file"
        assert function.startswith("test_"), test
        assert function in {found.name for found in functions(file)}, f"{test}: no such test"
