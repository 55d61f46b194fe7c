"""The autoscaler's REST API over its unix socket: typed bodies out, Trouble with an exit code otherwise."""

import errno
import http.client
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from gpuherd.rest import Problem
from gpuherd_ctl.exit_codes import ExitCode, of_problem

DEFAULT_SOCKET: Final = "/run/gpuherd/autoscaler.sock"
SOCKET_VARIABLE: Final = "GPUHERD_SOCKET"
API: Final = "/api/v1"
TIMEOUT_S: Final = 10.0
MAX_BODY_BYTES: Final = 32 * 1024 * 1024

T = TypeVar("T")


class Trouble(Exception):
    """The command cannot go on; ``code`` is its exit code and ``hint`` what to do next.

    State afterwards: nothing was changed when the code is UNREACHABLE, REFUSED, NOT_FOUND or CONFLICT.
    """

    def __init__(self, code: ExitCode, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.hint = hint


class Silence(Trouble):
    """The socket was reached and nothing came from it in time."""


def socket_path(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the socket to use: the option, else the variable, else the packaged place."""
    return given or environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket; the host name only fills the Host header."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the path instead of to a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Scaler:
    """One autoscaler. Every call opens a connection of its own, so a restart in between does no harm."""

    def __init__(self, path: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.path = path
        self._timeout_s = timeout_s

    def get(self, path: str, kind: type[T]) -> T:
        """Return the body of ``GET /api/v1<path>``; raises Trouble."""
        return self._call("GET", path, None, kind)

    def post(self, path: str, body: object, kind: type[T]) -> T:
        """Send ``body`` and return the answer's; raises Trouble."""
        return self._call("POST", path, msgspec.json.encode(body), kind)

    def _call(self, method: str, path: str, body: bytes | None, kind: type[T]) -> T:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        with self._answer(method, path, body, headers, self._timeout_s) as answer:
            text = answer.read(MAX_BODY_BYTES)
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise Trouble(
                ExitCode.FAILED,
                f"the answer of {self.path} to {method} {path} is not understood: {error}",
                "compare `agentctl version` with the autoscaler's",
            ) from error

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], *, idle_s: float) -> Iterator[Iterator[str]]:
        """Yield the lines of an answer as they come; raises Trouble when none came for ``idle_s``."""
        with self._answer("GET", path, None, headers, idle_s) as answer:
            yield self._lines(answer)

    def _lines(self, answer: http.client.HTTPResponse) -> Iterator[str]:
        try:
            while line := answer.readline(1024 * 1024):
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.path, error) from error

    @contextmanager
    def _answer(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        connection = _UnixConnection(self.path, timeout_s)
        try:
            try:
                connection.request(method, API + path, body, dict(headers))
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(self.path, error) from error
            if answer.status >= http.client.BAD_REQUEST:
                raise _refusal(answer)
            yield answer
        finally:
            connection.close()


def _refusal(answer: http.client.HTTPResponse) -> Trouble:
    text = answer.read(MAX_BODY_BYTES)
    try:
        problem = msgspec.json.decode(text, type=Problem)
    except msgspec.DecodeError:
        return Trouble(of_problem(answer.status, ""), f"HTTP {answer.status} {answer.reason}")
    return Trouble(of_problem(problem.status, problem.code), problem.detail or problem.title, problem.hint)


_WHY: Final = {
    errno.ENOENT: ("no such socket", "is gpuherd-autoscaler running here? Name its socket"),
    errno.ECONNREFUSED: ("nothing listens there", "start gpuherd-autoscaler, or name another socket"),
    errno.EACCES: ("permission denied", "join the group that owns the socket, or name another one"),
}


def _unreachable(path: str, error: Exception) -> Trouble:
    if isinstance(error, TimeoutError):
        text = f"the autoscaler at {path} does not answer in time"
        return Silence(ExitCode.UNREACHABLE, text, "look at its log")
    number = error.errno if isinstance(error, OSError) else None
    why, hint = _WHY.get(
        number or 0, (str(error) or type(error).__name__, "look at its log, or name another")
    )
    return Trouble(
        ExitCode.UNREACHABLE,
        f"the autoscaler is not reachable at {path}: {why}",
        f"{hint} by --socket PATH or {SOCKET_VARIABLE}",
    )
