"""An autoscaler's unix socket for tests of clients: routes to bodies, every request remembered."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec

from gpuherd.rest import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    body: bytes
    last_event_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An event stream: these texts are sent, then the connection ends."""

    texts: tuple[str, ...]


Answer = Callable[[Asked], object]


@dataclass(slots=True)
class RestServer:
    """What it answers, and what it was asked. A Problem is sent under its own status."""

    path: Path
    routes: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(self, method: str, path: str, *answers: object) -> None:
        """Answer with each body in turn, then always with the last; a callable is called."""
        left = list(answers)

        def answer(asked: Asked) -> object:
            body = left.pop(0) if len(left) > 1 else left[0]
            return body(asked) if callable(body) else body

        self.routes[method, "/api/v1" + path] = answer


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def serve(path: Path) -> Iterator[RestServer]:
    """Serve on the unix socket at ``path`` until the block ends; its file is removed then."""
    rest = RestServer(path=path)

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _answer(self, body: bytes) -> None:
            asked = Asked(
                method=self.command,
                path=self.path,
                body=body,
                last_event_id=self.headers.get("Last-Event-ID"),
            )
            rest.asked.append(asked)
            route = rest.routes.get((asked.method, asked.path))
            missing = Problem(title="Not found", status=404, detail=f"no {asked.path}", code="not_found")
            answer = route(asked) if route else missing
            if isinstance(answer, Stream):
                self._head(200, "text/event-stream")
                for text in answer.texts:
                    self.wfile.write(text.encode())
                return
            status = answer.status if isinstance(answer, Problem) else 200
            self._head(status, "application/json")
            self.wfile.write(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))

        def _head(self, status: int, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self.end_headers()

    with _UnixServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield rest
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)
