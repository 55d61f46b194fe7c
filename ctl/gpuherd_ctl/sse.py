"""Server-sent events: lines to events. Pure; reading and reconnecting are done by the verb.

Format: WHATWG HTML standard, section 9.2 (event stream interpretation).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event of the stream; ``id`` is what a reconnecting client sends as Last-Event-ID."""

    data: str
    id: str | None = None
    name: str = ""


def parse_events(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Yield each event once its empty line has come; comments and an unfinished event are dropped."""
    data: list[str] = []
    last_id: str | None = None
    name = ""
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(data="\n".join(data), id=last_id, name=name)
            data, name = [], ""
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            data.append(value)
        elif key == "id" and "\0" not in value:
            last_id = value
        elif key == "event":
            name = value
