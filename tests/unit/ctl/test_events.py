"""agentctl events: the stream is understood, and goes on where it broke off."""

import io

import msgspec
import pytest
from tests.kit.rest_bodies import event
from tests.kit.rest_server import RestServer, Stream

from gpuherd_ctl.__main__ import parser
from gpuherd_ctl.client import Scaler
from gpuherd_ctl.output import Paper
from gpuherd_ctl.session import Session
from gpuherd_ctl.sse import parse_events
from gpuherd_ctl.verbs import events


def _sse(number: int, reason: str) -> str:
    body = msgspec.json.encode(event(number, reason)).decode()
    return f"id: {number}\nevent: event\ndata: {body}\n\n"


def _session(path: str, out: io.StringIO, err: io.StringIO, waits: int) -> Session:
    left = iter(range(waits))

    def wait(_seconds: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return Session(scaler=Scaler(path), paper=Paper(out=out, err=err), user="user:ada", wait=wait)


def test_following_goes_on_after_the_last_event_seen(rest: RestServer) -> None:
    out, err = io.StringIO(), io.StringIO()
    rest.on(
        "GET",
        "/events",
        Stream(texts=(_sse(1, "one"), _sse(2, "two"), "id: 3\ndata: {half")),
        Stream(texts=(": alive\n\n", _sse(3, "three"))),
    )
    with pytest.raises(KeyboardInterrupt):
        events.VERB.run(parser().parse_args(["events", "-f"]), _session(str(rest.path), out, err, waits=1))
    assert [asked.last_event_id for asked in rest.asked] == ["0", "2"]
    assert [out.getvalue().count(word) for word in ("one", "two", "three")] == [1, 1, 1]


def test_an_outage_is_told_once_and_with_the_place_to_go_on_from(rest: RestServer) -> None:
    out, err = io.StringIO(), io.StringIO()
    session = _session(str(rest.path) + "-gone", out, err, waits=3)
    with pytest.raises(KeyboardInterrupt):
        events.VERB.run(parser().parse_args(["events", "-f"]), session)
    assert err.getvalue().count("going on after event 0") == 1


def test_without_following_the_stored_events_are_shown(rest: RestServer) -> None:
    out, err = io.StringIO(), io.StringIO()
    rest.on("GET", "/events", Stream(texts=(_sse(1, "one"),)))
    code = events.VERB.run(parser().parse_args(["events"]), _session(str(rest.path), out, err, waits=0))
    assert code == 0
    assert "one" in out.getvalue()


def test_a_gap_in_the_stored_events_is_told(rest: RestServer) -> None:
    out, err = io.StringIO(), io.StringIO()
    rest.on("GET", "/events", Stream(texts=("event: gap\ndata: {}\n\n", _sse(9, "nine"))))
    events.VERB.run(parser().parse_args(["events"]), _session(str(rest.path), out, err, waits=0))
    assert "no longer stored" in err.getvalue()
    assert "nine" in out.getvalue()


def test_lines_become_events_at_their_empty_line() -> None:
    lines = ["id: 7", "data: a", "data:b", "", ": comment", "", "event: x", "data: c", "", "data: unfinished"]
    first, second = parse_events(lines)
    assert (first.id, first.data, first.name) == ("7", "a\nb", "")
    assert (second.id, second.data, second.name) == ("7", "c", "x")
