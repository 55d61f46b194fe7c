"""Errors as RFC 9457 problems: one table from what went wrong to status, code and title."""

from typing import Final

from gpuherd.errors import ConfigInvalid, Conflict, HerdError, NotFound, Refused, Retryable, WireInvalid
from gpuherd.names import NameInvalid
from gpuherd.rest import Problem

#: The first row whose type matches counts, so that a subclass stands above its base.
_ROWS: Final = (
    (NotFound, 404, "not_found", "Not found"),
    (Conflict, 409, "conflict", "Conflict"),
    (Refused, 409, "refused", "Refused"),
    (ConfigInvalid, 422, "config", "Settings cannot be used"),
    (WireInvalid, 400, "body", "Body not understood"),
    (NameInvalid, 400, "name", "Name not allowed"),
    (Retryable, 503, "retry", "Not possible now"),
    (HerdError, 500, "failed", "Failed"),
)

#: Statuses that the HTTP layer itself answers with.
_HTTP: Final = {
    400: ("bad_request", "Bad request"),
    403: ("forbidden", "Forbidden"),
    404: ("not_found", "No such path"),
    405: ("method", "Method not allowed here"),
    408: ("timeout", "The body did not come in time"),
    413: ("oversize", "Body too large"),
    415: ("media_type", "Body of an unknown kind"),
}


class ProblemRaised(HerdError):
    """An answer that a handler has worded itself."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def problem_of(error: HerdError | NameInvalid) -> Problem:
    """Return what to answer for an error raised on purpose."""
    if isinstance(error, ProblemRaised):
        return error.problem
    status, code, title = next((s, c, t) for kind, s, c, t in _ROWS if isinstance(error, kind))
    if isinstance(error, WireInvalid):
        code = error.reason
    return Problem(title=title, status=status, detail=str(error), code=code)


def http_problem(status: int, detail: str) -> Problem:
    """Return the problem for a status of the HTTP layer."""
    code, title = _HTTP.get(status, ("http", "Refused by the HTTP layer"))
    return Problem(title=title, status=status, detail=detail, code=code)
