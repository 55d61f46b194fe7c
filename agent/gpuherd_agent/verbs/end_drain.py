"""``end-drain``: a person ends what is left on a draining node that is to serve again: it rejoins at once."""

from typing import Final

from gpuherd.errors import Refused
from gpuherd.wire.documents import Command
from gpuherd_agent import draining
from gpuherd_agent.verbs.verb import Desk, Done, Verb

_DEADLINE_S: Final = 30.0
_PATIENCE_S: Final = 10.0
"""The order that lifts the holds comes by another document and may be later than the command."""

_GLANCE_S: Final = 0.2


async def run(desk: Desk, command: Command) -> Done:
    """Let the work be stopped, with its grace; raises Refused when the node would not rejoin then."""
    steward, raylet = desk.steward, command.arguments.get("raylet", "")
    give_up = desk.clock.now() + _PATIENCE_S
    while why := draining.refuse_end(steward.station.phase, steward.memory, desk.rules, raylet):
        if not steward.memory.holds or desk.clock.now() >= give_up:
            raise Refused(why)
        await desk.clock.sleep_until(desk.clock.now() + _GLANCE_S)
    if not steward.remember(draining.end_now(steward.memory, command.by or "somebody")):
        raise Refused("the node's store took no record of it; free or mend the disk of state_dir")
    why = command.reason or "no reason given"
    desk.tell("drain.ended", f"what was left is stopped (by {command.by}): {why}")
    return Done(reason="what was left is being stopped; the node rejoins then")


VERB: Final = Verb(name="end-drain", deadline_s=_DEADLINE_S, run=run)
