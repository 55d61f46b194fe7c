"""The fence: which of two desired documents a node obeys."""

import pytest

from gpuherd.fence import MAX_TERM_STEP, Mark, Ruling, judge


def mark(term: int, generation: int, digest: str = "a") -> Mark:
    return Mark(term=term, generation=generation, digest=digest)


@pytest.mark.parametrize(
    ("offered", "ruling"),
    [
        pytest.param(mark(5, 8), Ruling.ACCEPT, id="next generation"),
        pytest.param(mark(6, 1), Ruling.ACCEPT, id="next term starts over"),
        pytest.param(mark(5, 7), Ruling.SAME, id="the very same"),
        pytest.param(mark(5, 7, "b"), Ruling.TWO_WRITERS, id="same place, other bytes"),
        pytest.param(mark(5, 6), Ruling.OLDER, id="older generation"),
        pytest.param(mark(4, 99), Ruling.OLDER, id="older term"),
        pytest.param(mark(5 + MAX_TERM_STEP, 1), Ruling.ACCEPT, id="last allowed step"),
        pytest.param(mark(6 + MAX_TERM_STEP, 1), Ruling.TERM_BOMB, id="one step too far"),
    ],
)
def test_the_fence_against_a_stored_document(offered: Mark, ruling: Ruling) -> None:
    assert judge(mark(5, 7), offered) is ruling


def test_the_first_document_is_taken_as_it_is() -> None:
    assert judge(None, mark(2**40, 1)) is Ruling.ACCEPT
