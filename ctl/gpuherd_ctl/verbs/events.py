"""``agentctl events``: what happened; with ``-f`` also what happens, across restarts of the autoscaler."""

import argparse
from collections.abc import Iterator

import msgspec

from gpuherd.rest import Event
from gpuherd_ctl.client import Silence, Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import clock_text
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.sse import parse_events

RETRY_S = 1.0
IDLE_S = 60.0
"""Longest silence of a live stream: the server sends a comment every 15 s."""
PAST_S = 1.0
"""Without ``-f``: the stored events have all come when nothing came for this long."""


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on, also over a restart, until Ctrl-C"
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    return _follow(session) if given.follow else _past(session)


def _past(session: Session) -> ExitCode:
    """Show what is stored. The stream has no end of its own, so a silence ends it."""
    try:
        for event in _stream(session, 0, PAST_S):
            _show(session, event)
    except Silence:
        pass
    return ExitCode.DONE


def _follow(session: Session) -> ExitCode:
    last, is_away = 0, False
    while True:
        try:
            for event in _stream(session, last, IDLE_S):
                is_away, last = False, event.id
                _show(session, event)
        except Trouble as trouble:
            if trouble.code is not ExitCode.UNREACHABLE:
                raise
            if not is_away:
                session.paper.remark(f"{trouble}; going on after event {last} once it is back")
            is_away = True
        session.wait(RETRY_S)


def _stream(session: Session, last: int, idle_s: float) -> Iterator[Event]:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last)}
    with session.scaler.stream("/events", headers, idle_s=idle_s) as lines:
        for sent in parse_events(lines):
            if sent.name == "gap":
                session.paper.remark("some events in between are no longer stored")
                continue
            try:
                yield msgspec.json.decode(sent.data, type=Event)
            except msgspec.DecodeError:
                session.paper.remark(f"an event was not understood and is left out: {sent.data[:200]}")


def _show(session: Session, event: Event) -> None:
    session.paper.json_line(event)
    session.paper.line(f"{clock_text(event.at)}  {event.node or '-':12}  {event.kind:20}  {event.reason}")


VERB = Verb(
    name="events", summary="Show what happened, and with -f what happens.", declare=_declare, run=_run
)
