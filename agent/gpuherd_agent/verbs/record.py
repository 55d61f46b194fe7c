"""``record``: keeps every look of a while in one file on the node, to be judged again elsewhere."""

from typing import Final

from gpuherd.errors import Refused
from gpuherd.wire.documents import Command
from gpuherd_agent.verbs.verb import Desk, Done, Verb

_DEADLINE_S: Final = 10.0


async def run(desk: Desk, command: Command) -> Done:
    """Begin a recording, or end the one under way; its file's path is the output. Raises Refused."""
    recorder = desk.recorder
    if recorder is None:
        raise Refused("this node keeps no files")
    if command.arguments.get("stop") == "yes":
        path = recorder.stop(f"ended by {command.by}")
        if path is None:
            raise Refused("nothing is being recorded")
        return Done(reason="ended", output=str(path))
    for_s = _seconds(command.arguments.get("for_s", ""))
    path = recorder.start(for_s)
    return Done(reason=f"recording for {for_s:g} s", output=str(path))


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Refused(f"{text[:40]!r} is no number of seconds") from error


VERB: Final = Verb(name="record", deadline_s=_DEADLINE_S, run=run)
