"""Errors as problems."""

import pytest

from gpuherd.errors import (
    ConfigInvalid,
    HeadUnreachable,
    HerdError,
    NotFound,
    Refused,
    Retryable,
    WireInvalid,
)
from gpuherd.names import NameInvalid
from gpuherd.problems import ProblemRaised, http_problem, problem_of
from gpuherd.rest import Problem


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFound("no node x"), 404, "not_found"),
        (Refused("budget"), 409, "refused"),
        (ConfigInvalid({"a.b": "is missing"}), 422, "config"),
        (WireInvalid("depth", "nested"), 400, "depth"),
        (NameInvalid("bad"), 400, "name"),
        (Retryable("later"), 503, "retry"),
        (HeadUnreachable("10.0.0.1"), 503, "retry"),
        (HerdError("?"), 500, "failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_has_a_status_a_code_and_its_own_words(error: HerdError, status: int, code: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.code, problem.detail) == (status, code, str(error))


def test_a_worded_problem_is_answered_as_it_is() -> None:
    worded = Problem(title="t", status=412, detail="d", code="precondition", hint="h")
    assert problem_of(ProblemRaised(worded)) is worded


def test_a_status_without_a_row_keeps_its_number() -> None:
    assert http_problem(418, "teapot") == Problem(
        title="Refused by the HTTP layer", status=418, detail="teapot", code="http"
    )
